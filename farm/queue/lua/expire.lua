-- ARGV: the most losses, how many leases to look at. Takes back the leases of workers that fell silent.
-- Gives {1 if the run was closed, how many were given up, the jobs to queue again}.
local running = state() == 'running'
local closed, lost, again = 0, 0, {}
for _, job in ipairs(redis.call('ZRANGEBYSCORE', leases, '-inf', now_ms(), 'LIMIT', 0, ARGV[2])) do
  let_go(job, claim_of(job), '')
  if not running then
    -- Nothing to be done again: only what it held is free now.
  elseif redis.call('HINCRBY', losses, job, 1) < tonumber(ARGV[1]) then
    again[#again + 1] = job
  else
    lost = lost + 1
    -- An empty result: every worker that tried it is gone, so nobody can say more.
    if settle(job, '') then
      closed = 1
    end
  end
end
return { closed, lost, again }
