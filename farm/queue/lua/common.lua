-- What all scripts of the ledger share. KEYS are the seven keys of one run, always in this order:
local run, todo, leases, claims, attempts, delays, results =
  KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7]

-- The server's clock is the only one: workers' clocks differ.
local function now_ms()
  local time = redis.call('TIME')
  return tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
end

local function state()
  return redis.call('HGET', run, 'state')
end

local function holds(job, token)
  return redis.call('HGET', claims, job) == token
end

local function let_go(job)
  redis.call('ZREM', leases, job)
  redis.call('HDEL', claims, job)
end

-- Write a trial's result, once. The write that leaves nothing to do closes the run, in the same step.
local function settle(job, result)
  redis.call('SREM', todo, job)
  redis.call('ZREM', delays, job)
  let_go(job)
  redis.call('HSET', results, job, result)
  if redis.call('SCARD', todo) == 0 and state() == 'running' then
    redis.call('HSET', run, 'state', 'aggregating', 'closed_at_ms', now_ms())
    return true
  end
  return false
end
