-- ARGV: job, token, lease in ms, what to show of the session or ''.
local job, token = ARGV[1], ARGV[2]
local claim = claim_of(job)
if claim[1] ~= token then
  return 'lost'
end
if state() ~= 'running' then
  return 'closed'
end
local expires = now_ms() + tonumber(ARGV[3])
redis.call('ZADD', leases, expires, job)
-- A slot that had run out meanwhile is taken again, even above the limit: the session does run.
for line = 3, #claim do
  redis.call('ZADD', limit_key(claim[line], 'slots'), expires, token)
end
if ARGV[4] ~= '' then
  redis.call('HSET', notes, job, ARGV[4])
end
return 'held'
