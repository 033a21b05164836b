-- ARGV: job, token, lease in ms, the most attempts. Gives {word, attempt or ms to wait}.
local job, token, lease_ms = ARGV[1], ARGV[2], tonumber(ARGV[3])
if state() ~= 'running' then
  return { 'closed', 0 }
end
if redis.call('SISMEMBER', todo, job) == 0 then
  return { 'done', 0 }
end
local now = now_ms()
local expires = redis.call('ZSCORE', leases, job)
if expires and tonumber(expires) > now then
  return { 'leased', 0 }
end
local not_before = redis.call('ZSCORE', delays, job)
if not_before and tonumber(not_before) > now then
  return { 'early', tonumber(not_before) - now }
end
local attempt = tonumber(redis.call('HGET', attempts, job) or 0) + 1
if attempt > tonumber(ARGV[4]) then
  return { 'exhausted', attempt - 1 }
end
redis.call('HSET', attempts, job, attempt)
redis.call('ZREM', delays, job)
redis.call('ZADD', leases, now + lease_ms, job)
redis.call('HSET', claims, job, token)
redis.call('HINCRBY', run, 'executions', 1)
if attempt > 1 then
  redis.call('HINCRBY', run, 'retries', 1)
end
return { 'claimed', attempt }
