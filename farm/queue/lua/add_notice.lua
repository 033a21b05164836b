-- KEYS: the notice, the suite's notices that wait. ARGV: its id, its record, now (ms, the caller's), ms to keep it.
-- Gives 1, or 0 if there is, or was, such a notice already: whatever is to be told is told once.
if redis.call('HSETNX', KEYS[1], 'record', ARGV[2]) == 0 then
  return 0
end
redis.call('PEXPIRE', KEYS[1], ARGV[4])
redis.call('ZADD', KEYS[2], ARGV[3], ARGV[1])
return 1
