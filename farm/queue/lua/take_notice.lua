-- KEYS: the suite's notices that wait. ARGV: how a notice's key begins, now (ms, the caller's), ms to hold it, then
-- the targets that the caller knows. Gives a notice to one of them that is due, with how often it was taken and its
-- record; others do not get it for that time.
local known = {}
for argument = 4, #ARGV do
  known[ARGV[argument]] = true
end
for _, id in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', ARGV[2])) do
  local notice = ARGV[1] .. id
  local record = redis.call('HGET', notice, 'record')
  if not record then
    redis.call('ZREM', KEYS[1], id) -- too old
  elseif known[string.match(id, '[^:]*$')] then
    redis.call('ZADD', KEYS[1], ARGV[2] + ARGV[3], id)
    return { id, redis.call('HINCRBY', notice, 'tries', 1), record }
  end
end
return nil
