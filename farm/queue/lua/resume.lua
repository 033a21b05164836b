-- ARGV: the run's id, a new budget in micro-dollars or ''.
-- Open a closed run again for what has no result; gives the number of such trials.
local left, was = redis.call('SCARD', todo), state()
if was and was ~= 'running' and left > 0 then
  open_again(ARGV[1], ARGV[2])
end
return was and left or 0
