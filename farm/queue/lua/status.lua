-- Gives the run's fields and their values, how many of its trials have no result, and how many leases run.
local leased = redis.call('ZCOUNT', leases, '(' .. now_ms(), '+inf') -- the others are of the dead
return { redis.call('HGETALL', run), redis.call('SCARD', todo), leased }
