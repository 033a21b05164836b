-- ARGV: job, token, cost in micro-dollars or '', ms to wait before the next attempt, 1 if this one is not counted,
-- the errors of the attempts so far or ''.
local job, token, delay_ms = ARGV[1], ARGV[2], tonumber(ARGV[4])
local claim = claim_of(job)
if claim[1] ~= token then
  return 0
end
let_go(job, claim, ARGV[3])
if state() ~= 'running' then
  return 1 -- a finished run's keys expire: none may come to life again
end
if delay_ms > 0 then
  redis.call('ZADD', delays, now_ms() + delay_ms, job)
end
if ARGV[5] == '1' then
  redis.call('HINCRBY', attempts, job, -1)
end
if ARGV[6] ~= '' then
  redis.call('HSET', errors, job, ARGV[6])
end
return 1
