-- ARGV: job, token, this write's own word of eight bytes, cost in micro-dollars or '', result.
-- Only the holder of the current token may write, and only once.
local job, token, word, cost = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local was, claim = state(), claim_of(job)
if not was then
  return 'duplicate' -- of a run that is forgotten: nothing is written, or it would stay for ever
end
if claim[1] ~= token then
  local written = redis.call('HGET', results, job)
  if written and string.sub(written, 1, #word) == word then
    -- Our answer was lost on the way, and this is the same write again.
    return redis.call('SCARD', todo) == 0 and 'last' or 'stored'
  end
  if was == 'running' then
    -- Not after the end: whoever aggregates, and however often, must write the same report.
    redis.call('HINCRBY', run, 'duplicate_executions', 1)
  end
  return 'duplicate'
end
let_go(job, claim, cost)
if was ~= 'running' then
  return 'closed'
end
return settle(job, word .. ARGV[5]) and 'last' or 'stored'
