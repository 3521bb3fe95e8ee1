import { Kafka, Partitioners, logLevel } from 'kafkajs'
import { kafkaPublisher } from '../../../src/brokers/kafka.ts'
import { createEncoder } from '../../../src/publishing/format.ts'
import type { Senders } from './sender.ts'
import { publisherSender } from './waybill.ts'

export const kafkaSenders: Senders = {
  async waybill({ address }, batches) {
    return publisherSender(await kafkaPublisher({ brokers: [address] }), batches)
  },
  async bare({ address, topic }, batches) {
    const encoder = createEncoder({ binding: 'kafka' })
    const records = batches.map((batch) =>
      batch.map((message) => {
        const { body: value, headers } = encoder.encode(message)
        return { key: message.aggregateId, value, headers: Object.fromEntries(headers) }
      }),
    )
    const producer = new Kafka({ brokers: [address], logLevel: logLevel.NOTHING }).producer({
      idempotent: true,
      maxInFlightRequests: 1,
      createPartitioner: Partitioners.DefaultPartitioner,
    })
    await producer.connect()
    return {
      async send(batch) {
        await producer.sendBatch({ topicMessages: [{ topic, messages: records[batch]! }] })
      },
      close: () => producer.disconnect(),
    }
  },
}
