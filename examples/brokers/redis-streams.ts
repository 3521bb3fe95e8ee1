/**
 * An outbox that publishes to a stream of Redis, and a consumer group that reads it. Needs a server:
 *
 *     REDIS_URL=redis://127.0.0.1:6379 npx tsx examples/brokers/redis-streams.ts
 *
 * In a service of your own, `redisStreamsPublisher` and `redisStreamsSource` come from `waybill/brokers/redis-streams`.
 */
import { Redis } from 'ioredis'
import { redisStreamsPublisher, redisStreamsSource } from '../../src/brokers/redis-streams.ts'
import { deliverOrder } from './deliver-order.ts'

const url = process.env['REDIS_URL'] ?? 'redis://127.0.0.1:6379'
// Of this run: one that was interrupted leaves its stream behind.
const topic = `example.order.${Date.now()}`

await deliverOrder({
  publisher: await redisStreamsPublisher({ url, maxLength: 1_000_000 }),
  topic,
  source: redisStreamsSource({ url, streams: [topic], group: 'search' }),
})

const redis = new Redis(url)
await redis.del(topic)
redis.disconnect()
