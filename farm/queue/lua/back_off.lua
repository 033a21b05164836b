-- KEYS: a limit's pause. ARGV: ms. A pause is never made shorter: who was told more knows more.
local ends = now_ms() + tonumber(ARGV[1])
if ends > tonumber(redis.call('GET', KEYS[1]) or 0) then
  redis.call('SET', KEYS[1], string.format('%.0f', ends), 'PX', ARGV[1])
end
return 1
