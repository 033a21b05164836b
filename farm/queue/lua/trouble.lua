-- ARGV: what keeps the run from its report.
if state() == 'aggregating' then
  redis.call('HSET', run, 'trouble', ARGV[1])
end
return 1
