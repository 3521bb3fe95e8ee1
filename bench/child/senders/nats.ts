import { jetstream } from '@nats-io/jetstream'
import { connect, headers } from '@nats-io/transport-node'
import { natsPublisher } from '../../../src/brokers/nats.ts'
import { createEncoder } from '../../../src/publishing/format.ts'
import type { Senders } from './sender.ts'
import { publisherSender } from './waybill.ts'

export const natsSenders: Senders = {
  async waybill({ address, topic }, batches) {
    return publisherSender(await natsPublisher({ url: address, stream: topic }), batches)
  },
  async bare({ address, topic }, batches) {
    const encoder = createEncoder({ binding: 'nats' })
    const records = batches.map((batch) =>
      batch.map((message) => {
        const encoded = encoder.encode(message)
        const sent = headers()
        for (const [name, value] of encoded.headers) sent.append(name, value)
        return {
          data: Buffer.from(encoded.body),
          options: { headers: sent, msgID: message.messageId, expect: { streamName: topic } },
        }
      }),
    )
    const connection = await connect({ servers: new URL(address).host })
    const js = jetstream(connection)
    return {
      async send(batch) {
        await Promise.all(records[batch]!.map(({ data, options }) => js.publish(topic, data, options)))
      },
      close: () => connection.close(),
    }
  },
}
