-- ARGV: how many. Gives the jobs whose delay is over, each to one caller only.
if state() ~= 'running' then
  return {}
end
local jobs = redis.call('ZRANGEBYSCORE', delays, '-inf', now_ms(), 'LIMIT', 0, ARGV[1])
for _, job in ipairs(jobs) do
  redis.call('ZREM', delays, job)
end
return jobs
