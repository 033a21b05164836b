-- KEYS: a service's pause, its strikes, the index of pauses. ARGV: the service's name, when the session began that it turned away,
-- the first pause and the longest (ms), how long the service itself asked to wait or 0 (ms), a chance from 0 to 1.
-- Gives the ms that the pause lasts now.
local pause, strikes, pauses = KEYS[1], KEYS[2], KEYS[3]
local name, began, first, longest = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local wait, chance, now = tonumber(ARGV[5]), tonumber(ARGV[6]), now_ms()
local last, strike = unpack(redis.call('HMGET', strikes, 'at_ms', 'count'))
-- Many sessions are turned away together. Those that began before the last strike say nothing that it did not say.
if not last or began > tonumber(last) then
  strike = tonumber(strike or 0) + 1
  redis.call('HSET', strikes, 'at_ms', string.format('%.0f', now), 'count', string.format('%.0f', strike))
  redis.call('PEXPIRE', strikes, string.format('%.0f', 4 * longest))
  wait = math.max(wait, math.min(longest, first * 2 ^ (strike - 1)) * (0.5 + chance / 2))
end
local ends = math.max(tonumber(redis.call('GET', pause) or 0), now + math.ceil(wait))
if ends <= now then
  return 0
end
redis.call('SET', pause, string.format('%.0f', ends), 'PX', string.format('%.0f', ends - now))
redis.call('ZREMRANGEBYSCORE', pauses, '-inf', now)
redis.call('ZADD', pauses, string.format('%.0f', ends), name)
return ends - now
