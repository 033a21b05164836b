-- What has a result keeps it; claims are refused from now on. Running sessions hear of it when they renew, and keep
-- their slots until then: they do run.
if state() ~= 'running' then
  return 0
end
redis.call('HSET', run, 'cancelled', 1)
close()
return 1
