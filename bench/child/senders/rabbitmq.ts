import { Connection } from 'rabbitmq-client'
import { rabbitmqPublisher } from '../../../src/brokers/rabbitmq.ts'
import { createEncoder } from '../../../src/publishing/format.ts'
import type { Senders } from './sender.ts'
import { publisherSender } from './waybill.ts'

export const rabbitmqSenders: Senders = {
  async waybill({ address }, batches) {
    return publisherSender(await rabbitmqPublisher({ url: address }), batches)
  },
  async bare({ address }, batches) {
    const encoder = createEncoder({ binding: 'amqp' })
    const records = batches.map((batch) =>
      batch.map((message) => {
        const { body, contentType, headers } = encoder.encode(message)
        const envelope = {
          routingKey: message.topic,
          mandatory: true,
          durable: true,
          messageId: message.messageId,
          type: message.eventType,
          timestamp: Math.floor(Date.parse(message.createdAt) / 1000),
          contentType,
          headers: Object.fromEntries(headers),
        }
        return { envelope, body: Buffer.from(body) }
      }),
    )
    const connection = new Connection(address)
    const channel = await connection.acquire()
    await channel.confirmSelect()
    return {
      async send(batch) {
        await Promise.all(records[batch]!.map(({ envelope, body }) => channel.basicPublish(envelope, body)))
      },
      async close() {
        await channel.close()
        await connection.close()
      },
    }
  },
}
