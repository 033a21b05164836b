-- KEYS: the lock. ARGV: who asks, for how many ms. Who has it keeps it for that time anew.
local owner = redis.call('GET', KEYS[1])
if owner and owner ~= ARGV[1] then
  return 0
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
