-- ARGV: the run's id, ms to keep it, when it was closed as far as the caller knows or '', then fields and their values.
-- The aggregator's last word; saying it twice changes nothing.
if state() ~= 'aggregating' then
  return 0
end
if ARGV[3] ~= '' and redis.call('HGET', run, 'closed_at_ms') ~= ARGV[3] then
  return 0
end
local cancelled = redis.call('HGET', run, 'cancelled') == '1'
redis.call(
  'HSET', run, 'state', cancelled and 'cancelled' or 'complete', 'finished_at_ms', now_ms(), unpack(ARGV, 4)
)
redis.call('HDEL', run, 'trouble')
for _, key in ipairs(all_keys()) do
  redis.call('PEXPIRE', key, ARGV[2])
end
redis.call('ZREM', 'farm:active', ARGV[1])
return 1
