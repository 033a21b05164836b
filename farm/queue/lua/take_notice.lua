-- KEYS: the suite's notices that wait. ARGV: how a notice's key begins, now (ms, the caller's), ms to hold it.
-- Gives a notice that is due, with how often it was taken and its record; others do not get it for that time.
local id = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', ARGV[2], 'LIMIT', 0, 1)[1]
if not id then
  return nil
end
local notice = ARGV[1] .. id
local record = redis.call('HGET', notice, 'record')
if not record then
  redis.call('ZREM', KEYS[1], id) -- too old
  return nil
end
redis.call('ZADD', KEYS[1], ARGV[2] + ARGV[3], id)
return { id, redis.call('HINCRBY', notice, 'tries', 1), record }
