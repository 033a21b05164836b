-- ARGV: job, token, lease in ms.
local job = ARGV[1]
if not holds(job, ARGV[2]) then
  return 'lost'
end
if state() ~= 'running' then
  return 'closed'
end
redis.call('ZADD', leases, now_ms() + tonumber(ARGV[3]), job)
return 'held'
