-- The aggregator's last word; saying it twice changes nothing.
local was = state()
if was == 'aggregating' then
  local cancelled = redis.call('HGET', run, 'cancelled') == '1'
  redis.call('HSET', run, 'state', cancelled and 'cancelled' or 'complete', 'finished_at_ms', now_ms())
  return 1
end
return 0
