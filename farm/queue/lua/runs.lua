-- KEYS: the index of runs. ARGV: how a run's key begins. Gives the runs that are kept, newest first.
local found = {}
for _, run_id in ipairs(redis.call('ZREVRANGE', KEYS[1], 0, -1)) do
  if redis.call('EXISTS', ARGV[1] .. run_id) == 1 then
    found[#found + 1] = run_id
  else
    redis.call('ZREM', KEYS[1], run_id)
  end
end
return found
