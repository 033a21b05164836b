-- ARGV: job, token, ms to wait before the next attempt, 1 if this attempt is not to be counted.
local job = ARGV[1]
if not holds(job, ARGV[2]) then
  return 0
end
let_go(job)
if tonumber(ARGV[3]) > 0 then
  redis.call('ZADD', delays, now_ms() + tonumber(ARGV[3]), job)
end
if ARGV[4] == '1' then
  redis.call('HINCRBY', attempts, job, -1)
end
return 1
