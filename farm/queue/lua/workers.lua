-- KEYS: as in announce. Gives the records of the living; the dead are removed.
for _, name in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now_ms())) do
  redis.call('ZREM', KEYS[1], name)
  redis.call('HDEL', KEYS[2], name)
end
return redis.call('HVALS', KEYS[2])
