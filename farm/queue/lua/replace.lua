-- ARGV: cases and their rows, to be put in the place of those that a run has. Not if the run is forgotten: they would
-- stay for ever.
if not state() then
  return 0
end
redis.call('HSET', cases, unpack(ARGV))
return 1
