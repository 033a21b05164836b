-- ARGV: job, token, lease in ms, the most losses, micro-dollars to reserve, 1 if that is a guess, worker; then for
-- each limit its name, sessions at once or '', starts a minute or ''. Gives {word, attempt or ms to wait, losses, time of the start, errors
-- of earlier attempts}.
local job, token, is_guess, worker = ARGV[1], ARGV[2], ARGV[6] == '1', ARGV[7]
local lease_ms, most_losses, reserve = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local first_limit, minute_ms = 8, 60000

local was, budget, spent, reserved =
  unpack(redis.call('HMGET', run, 'state', 'budget_micro_usd', 'spent_micro_usd', 'reserved_micro_usd'))
if was ~= 'running' then
  return { 'closed', 0 }
end
if redis.call('SISMEMBER', todo, job) == 0 then
  return { 'done', 0 }
end
local now = now_ms()
local expires = redis.call('ZSCORE', leases, job)
if expires then
  local claim = claim_of(job)
  if claim[1] == token then
    -- Our answer was lost on the way, and this is the same question again.
    return { 'claimed', count(attempts, job), count(losses, job), now, redis.call('HGET', errors, job) or '' }
  end
  -- One that is to be given up is the janitor's, who knows what to do when that closes the run.
  if tonumber(expires) > now or count(losses, job) + 1 >= most_losses then
    return { 'leased', 0 }
  end
  redis.call('HINCRBY', losses, job, 1)
  let_go(job, claim, '')
  -- An unknown cost moves from reserved to spent: their sum, which is all that counts below, stays.
end
local not_before = redis.call('ZSCORE', delays, job)
if not_before and tonumber(not_before) > now then
  return { 'early', tonumber(not_before) - now }
end

-- The token is as random as it gets; Lua's own random numbers are the same in every call.
local chance = tonumber(string.sub(token, 1, 4), 16) / 65536
local function limited(wait_ms)
  -- The more of them wait, the later each comes again: all together ask some 200 times a second, not more.
  wait_ms = math.ceil(wait_ms + chance * 10 * redis.call('ZCARD', delays))
  redis.call('ZADD', delays, now + wait_ms, job)
  return { 'limited', wait_ms }
end

if not budget then
  reserve = 0 -- there is nothing to reserve it from
else
  local left = tonumber(budget) - (spent or 0) - (reserved or 0)
  if reserve > left then
    -- What runs may turn out cheaper than it was reserved for; and it is not killed for lack of money.
    if redis.call('ZCARD', leases) > 0 then
      return limited(500 + chance * 500)
    end
    if not is_guess or left <= 0 then
      redis.call('HSET', run, 'stopped', 'budget')
      close()
      return { 'over_budget', 0 }
    end
    reserve = left
  end
end

local wait_ms = 0
for limit = first_limit, #ARGV, 3 do
  local name, sessions, starts = ARGV[limit], tonumber(ARGV[limit + 1]), tonumber(ARGV[limit + 2])
  local paused_until = tonumber(redis.call('GET', limit_key(name, 'pause')) or 0)
  if paused_until > now then
    wait_ms = math.max(wait_ms, paused_until - now + chance * 1000)
  end
  if sessions then
    local slots = limit_key(name, 'slots')
    redis.call('ZREMRANGEBYSCORE', slots, '-inf', now)
    if redis.call('ZCARD', slots) >= sessions then
      wait_ms = math.max(wait_ms, 250 + chance * 750)
    end
  end
  if starts then
    local started = limit_key(name, 'starts')
    redis.call('ZREMRANGEBYSCORE', started, '-inf', now - minute_ms)
    local excess = redis.call('ZCARD', started) - starts
    if excess >= 0 then
      local oldest = redis.call('ZRANGE', started, excess, excess, 'WITHSCORES')
      wait_ms = math.max(wait_ms, tonumber(oldest[2]) + minute_ms - now)
    end
  end
end
if wait_ms > 0 then
  return limited(wait_ms)
end

local record = { token, string.format('%.0f', reserve) }
for limit = first_limit, #ARGV, 3 do
  local name = ARGV[limit]
  if ARGV[limit + 1] ~= '' then
    record[#record + 1] = name
    redis.call('ZADD', limit_key(name, 'slots'), now + lease_ms, token)
  end
  if ARGV[limit + 2] ~= '' then
    redis.call('ZADD', limit_key(name, 'starts'), now, token)
    redis.call('PEXPIRE', limit_key(name, 'starts'), minute_ms)
  end
end
if not_before then
  redis.call('ZREM', delays, job)
end
redis.call('ZADD', leases, now + lease_ms, job)
redis.call('HSET', claims, job, table.concat(record, '\n'))
redis.call('HSET', notes, job, string.format('%.0f\n%s\n', now, worker))
redis.call('HINCRBY', run, 'executions', 1)
if reserve > 0 then
  redis.call('HINCRBY', run, 'reserved_micro_usd', record[2])
end
local attempt = redis.call('HINCRBY', attempts, job, 1)
local earlier = ''
if attempt > 1 then
  redis.call('HINCRBY', run, 'retries', 1)
  earlier = redis.call('HGET', errors, job) or ''
end
return { 'claimed', attempt, count(losses, job), now, earlier }
