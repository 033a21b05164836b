-- KEYS: a service's strikes. ARGV: when the session began that it served.
-- One that began before the last strike does not prove that the trouble is over.
local last = redis.call('HGET', KEYS[1], 'at_ms')
if last and tonumber(ARGV[1]) > tonumber(last) then
  redis.call('DEL', KEYS[1])
end
return 1
