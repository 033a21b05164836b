-- ARGV: the run's id, a new budget in micro-dollars or '', then jobs. Those that have a result are to be done again.
local put_back, was = 0, state()
for argument = 3, #ARGV do
  local job = ARGV[argument]
  if redis.call('HDEL', results, job) == 1 then
    put_back = put_back + 1
    redis.call('SADD', todo, job)
    if was == 'running' then -- else they all go at once, below
      redis.call('HDEL', attempts, job)
      redis.call('HDEL', losses, job)
      redis.call('HDEL', errors, job)
    end
  end
end
if put_back > 0 and was ~= 'running' then
  open_again(ARGV[1], ARGV[2])
end
return put_back
