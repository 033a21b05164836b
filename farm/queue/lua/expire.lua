-- ARGV: the most attempts, how many leases to look at. Takes back the leases of workers that fell silent.
-- Gives {1 if the run was closed, how many were given up, the jobs to queue again…}.
if state() ~= 'running' then
  return { 0, 0 }
end
local closed, lost, again = 0, 0, {}
local expired = redis.call('ZRANGEBYSCORE', leases, 0, now_ms(), 'LIMIT', 0, tonumber(ARGV[2]))
for _, job in ipairs(expired) do
  let_go(job)
  if tonumber(redis.call('HGET', attempts, job) or 0) >= tonumber(ARGV[1]) then
    lost = lost + 1
    -- An empty result: every worker that tried it is gone, so nobody can say more.
    if settle(job, '') then
      closed = 1
    end
  else
    again[#again + 1] = job
  end
end
return { closed, lost, unpack(again) }
