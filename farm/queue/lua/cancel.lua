-- What has a result keeps it; claims are refused from now on, and running sessions hear of it when they renew.
if state() ~= 'running' then
  return 0
end
redis.call('HSET', run, 'state', 'aggregating', 'cancelled', 1, 'closed_at_ms', now_ms())
return 1
