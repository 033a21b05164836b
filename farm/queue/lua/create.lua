-- ARGV: fields of the run and their values, their count first; then every job. The manifest comes first and
-- whole: a submitter that dies afterwards leaves a run that anybody can finish.
if redis.call('EXISTS', run) == 1 then
  return 0
end
local count = tonumber(ARGV[1])
redis.call('HSET', run, 'state', 'running', 'created_at_ms', now_ms(), unpack(ARGV, 2, count + 1))
for first = count + 2, #ARGV, 1000 do
  redis.call('SADD', todo, unpack(ARGV, first, math.min(first + 999, #ARGV)))
end
redis.call('HSET', run, 'total', redis.call('SCARD', todo))
return 1
