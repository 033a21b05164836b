-- KEYS: the index of active runs. ARGV: how a run's key begins, how long (ms) a run may take to be created.
-- Gives the runs that are not finished, oldest first.
local index, prefix, patience_ms = KEYS[1], ARGV[1], tonumber(ARGV[2])
local now, found = now_ms(), {}
local entries = redis.call('ZRANGE', index, 0, -1, 'WITHSCORES')
for at = 1, #entries, 2 do
  local run_id, since = entries[at], tonumber(entries[at + 1])
  local state = redis.call('HGET', prefix .. run_id, 'state')
  if state == 'running' or state == 'aggregating' then
    found[#found + 1] = run_id
  elseif state or since + patience_ms < now then
    redis.call('ZREM', index, run_id)
  end
end
return found
