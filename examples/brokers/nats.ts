/**
 * An outbox that publishes to NATS JetStream, and a consumer of it. Needs a server with JetStream:
 *
 *     NATS_URL=nats://127.0.0.1:4222 npx tsx examples/brokers/nats.ts
 *
 * In a service of your own, `natsPublisher` and `natsSource` come from `waybill/brokers/nats`.
 */
import { jetstreamManager } from '@nats-io/jetstream'
import { connect } from '@nats-io/transport-node'
import { natsPublisher, natsSource } from '../../src/brokers/nats.ts'
import { deliverOrder } from './deliver-order.ts'

const url = process.env['NATS_URL'] ?? 'nats://127.0.0.1:4222'
// Of this run: one that was interrupted leaves its stream behind.
const stream = `EXAMPLE_${Date.now()}`
const topic = `example.order.${Date.now()}`

// As the owner of the stream would.
const connection = await connect({ servers: new URL(url).host })
const { streams } = await jetstreamManager(connection)
await streams.add({ name: stream, subjects: [topic] })

await deliverOrder({
  publisher: await natsPublisher({ url, stream }),
  topic,
  source: natsSource({ url, stream, consumer: 'search' }),
})

await streams.delete(stream)
await connection.close()
