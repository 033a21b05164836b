-- KEYS[2], KEYS[3]: jobs and cases, prepared under names of this submitter's own.
-- ARGV: this creation's own word, the run's id, the fewest jobs and cases that must have arrived, the budget in
-- micro-dollars or '', then fields and their values. Gives 1 created, 0 there is one already, -1 data is missing.
local word, run_id, ready_jobs, ready_cases = ARGV[1], ARGV[2], KEYS[2], KEYS[3]
if redis.call('EXISTS', run) == 1 then
  redis.call('UNLINK', ready_jobs, ready_cases)
  -- The same word: our answer was lost on the way, and this is the same question again.
  return redis.call('HGET', run, 'creation') == word and 1 or 0
end
local total = redis.call('SCARD', ready_jobs)
-- A server that was restarted meanwhile may have kept a part only.
if total < tonumber(ARGV[3]) or redis.call('HLEN', ready_cases) < tonumber(ARGV[4]) then
  redis.call('UNLINK', ready_jobs, ready_cases)
  return -1
end
redis.call('UNLINK', unpack(all_keys()))
for ready, key in pairs({ [ready_jobs] = todo, [ready_cases] = cases }) do
  if redis.call('EXISTS', ready) == 1 then
    redis.call('RENAME', ready, key)
    redis.call('PERSIST', key)
  end
end
local now = now_ms()
redis.call('HSET', run, 'state', 'running', 'created_at_ms', now, 'total', total, 'creation', word, unpack(ARGV, 6))
if ARGV[5] ~= '' then
  redis.call('HSET', run, 'budget_micro_usd', ARGV[5])
end
if total == 0 then
  close()
end
redis.call('ZADD', 'farm:active', now, run_id)
redis.call('ZADD', 'farm:runs', now, run_id)
return 1
