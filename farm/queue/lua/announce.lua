-- KEYS: until when workers live, what they say of themselves. ARGV: name, ms to live, record.
redis.call('ZADD', KEYS[1], now_ms() + tonumber(ARGV[2]), ARGV[1])
redis.call('HSET', KEYS[2], ARGV[1], ARGV[3])
return 1
