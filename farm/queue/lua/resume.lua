-- Open a finished run again for what has no result; gives the number of such trials.
local left = redis.call('SCARD', todo)
local was = state()
if left == 0 or not was or was == 'running' then
  return was == 'running' and left or 0
end
redis.call('HSET', run, 'state', 'running', 'cancelled', 0)
redis.call('DEL', leases, claims, delays, attempts)
return left
