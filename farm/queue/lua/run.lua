-- What the scripts about one run share. KEYS[1] is the run's own key; the names of its other keys begin with that.
-- They are not sent as keys one by one, which would cost more than all the rest of a call.
local run = KEYS[1]
local todo, results, log, cases = run .. ':todo', run .. ':results', run .. ':log', run .. ':cases'
local leases, claims, notes = run .. ':leases', run .. ':claims', run .. ':notes'
local attempts, losses, delays = run .. ':attempts', run .. ':losses', run .. ':delays'
local errors = run .. ':errors' -- of earlier attempts, by job

local function all_keys()
  return { run, todo, results, log, cases, leases, claims, notes, attempts, losses, delays, errors }
end

local function state()
  return redis.call('HGET', run, 'state')
end

local function count(key, job)
  return tonumber(redis.call('HGET', key, job) or 0)
end

local function limit_key(name, what)
  return 'farm:limit:' .. name .. ':' .. what
end

-- A claim is kept as lines: its token, what it reserved (micro-dollars), the names of the limits whose slots it has.
local function claim_of(job)
  local record, lines = redis.call('HGET', claims, job), {}
  for line in string.gmatch(record or '', '[^\n]+') do
    lines[#lines + 1] = line
  end
  return lines
end

-- End a claim: its slots are free again, and what it cost is charged in place of what it reserved.
-- An unknown cost ('') is charged as it was reserved: better to stop early than to overspend.
local function let_go(job, claim, cost)
  local token, reserved = claim[1], claim[2]
  redis.call('ZREM', leases, job)
  redis.call('HDEL', claims, job)
  redis.call('HDEL', notes, job)
  for line = 3, #claim do
    redis.call('ZREM', limit_key(claim[line], 'slots'), token)
  end
  if cost == '' then
    redis.call('HINCRBY', run, 'unknown_costs', 1)
    cost = reserved
  end
  if cost ~= '0' then
    redis.call('HINCRBY', run, 'spent_micro_usd', cost)
  end
  if reserved ~= '0' then
    redis.call('HINCRBY', run, 'reserved_micro_usd', '-' .. reserved)
  end
end

local function close()
  redis.call('HSET', run, 'state', 'aggregating', 'closed_at_ms', now_ms())
end

-- Write a trial's result, once. The write that leaves nothing to do closes the run, in the same step.
local function settle(job, result)
  redis.call('SREM', todo, job)
  redis.call('HSET', results, job, result)
  redis.call('RPUSH', log, job)
  if redis.call('SCARD', todo) > 0 then
    return false
  end
  close()
  return true
end

-- Open a closed run for all that has no result. Sessions that still run have lost their claims.
local function open_again(run_id, budget)
  for _, job in ipairs(redis.call('HKEYS', claims)) do
    let_go(job, claim_of(job), '')
  end
  redis.call('UNLINK', leases, claims, notes, attempts, losses, delays, errors)
  redis.call('HSET', run, 'state', 'running', 'cancelled', 0)
  redis.call('HDEL', run, 'stopped', 'closed_at_ms', 'finished_at_ms')
  if budget ~= '' then
    redis.call('HSET', run, 'budget_micro_usd', budget)
  end
  for _, key in ipairs(all_keys()) do
    redis.call('PERSIST', key)
  end
  redis.call('ZADD', 'farm:active', now_ms(), run_id)
end
