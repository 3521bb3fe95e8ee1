import { Redis } from 'ioredis'
import { redisStreamsPublisher } from '../../../src/brokers/redis-streams.ts'
import { createEncoder } from '../../../src/publishing/format.ts'
import type { Senders } from './sender.ts'
import { publisherSender } from './waybill.ts'

export const redisSenders: Senders = {
  async waybill({ address }, batches) {
    return publisherSender(await redisStreamsPublisher({ url: address }), batches)
  },
  async bare({ address, topic }, batches) {
    const encoder = createEncoder({ binding: 'redis' })
    const records = batches.map((batch) =>
      batch.map((message) => {
        const { body, headers } = encoder.encode(message)
        return [...headers.flat(), 'body', body]
      }),
    )
    const redis = new Redis(address)
    return {
      async send(batch) {
        const transaction = redis.multi()
        for (const fields of records[batch]!) transaction.xadd(topic, '*', ...fields)
        for (const [error] of (await transaction.exec())!) if (error !== null) throw error
      },
      async close() {
        await redis.quit()
      },
    }
  },
}
