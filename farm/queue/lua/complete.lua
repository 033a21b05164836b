-- ARGV: job, token, result. Only the holder of the current token may write, and only once.
local job = ARGV[1]
if redis.call('SISMEMBER', todo, job) == 0 or not holds(job, ARGV[2]) then
  redis.call('HINCRBY', run, 'duplicate_executions', 1)
  return 'duplicate'
end
if state() ~= 'running' then
  let_go(job)
  return 'closed'
end
return settle(job, ARGV[3]) and 'last' or 'stored'
