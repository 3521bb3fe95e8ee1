/**
 * An outbox that publishes to a stream of Redis, and a consumer group that reads it. Needs a server:
 *
 *     REDIS_URL=redis://127.0.0.1:6379 npx tsx examples/brokers/redis-streams.ts
 *
 * In a service of your own, `redisStreamsPublisher` comes from `waybill/brokers/redis-streams`.
 */
import { Redis } from 'ioredis'
import { redisStreamsPublisher } from '../../src/brokers/redis-streams.ts'
import { eventTypes, withOutbox } from './outbox.ts'

type Entries = [id: string, fields: string[]][]

const url = process.env['REDIS_URL'] ?? 'redis://127.0.0.1:6379'
const stream = 'outbox.event.order'

const redis = new Redis(url)
await redis.xgroup('CREATE', stream, 'search', '$', 'MKSTREAM')

await withOutbox(await redisStreamsPublisher({ url, maxLength: 1_000_000 }), async () => {
  const seen = new Set<string>()
  while (seen.size < eventTypes.length) {
    const answer = await redis.xreadgroup('GROUP', 'search', 'one', 'BLOCK', 5000, 'STREAMS', stream, '>')
    const [[, entries]] = (answer ?? [[stream, []]]) as [[string, Entries]]
    for (const [id, list] of entries) {
      const fields = toFields(list)
      // What was seen before comes once more after a crash; a service keeps these ids in its own transaction.
      if (!seen.has(fields['id'] ?? '')) console.log(fields['eventType'], fields['body'])
      seen.add(fields['id'] ?? '')
      await redis.xack(stream, 'search', id)
    }
  }
})

await redis.xgroup('DESTROY', stream, 'search')
redis.disconnect()

/** Names and values in turn, as an object. */
function toFields(list: readonly string[]): Record<string, string> {
  const fields: Record<string, string> = {}
  for (let i = 0; i < list.length; i += 2) fields[list[i]!] = list[i + 1]!
  return fields
}
