/**
 * An outbox that publishes to NATS JetStream, and a consumer of it. Needs a server with JetStream:
 *
 *     NATS_URL=nats://127.0.0.1:4222 npx tsx examples/brokers/nats.ts
 *
 * In a service of your own, `natsPublisher` comes from `waybill/brokers/nats`.
 */
import { AckPolicy, jetstream, jetstreamManager } from '@nats-io/jetstream'
import { connect } from '@nats-io/transport-node'
import { natsPublisher } from '../../src/brokers/nats.ts'
import { eventTypes, withOutbox } from './outbox.ts'

const url = process.env['NATS_URL'] ?? 'nats://127.0.0.1:4222'
const stream = 'WAYBILL_EXAMPLE'

const connection = await connect({ servers: new URL(url).host })
const manager = await jetstreamManager(connection)
await manager.streams.add({ name: stream, subjects: ['outbox.event.order'] })
await manager.consumers.add(stream, { durable_name: 'search', ack_policy: AckPolicy.Explicit })

await withOutbox(await natsPublisher({ url, stream }), async () => {
  const consumer = await jetstream(connection).consumers.get(stream, 'search')
  const seen = new Set<string>()
  for await (const message of await consumer.consume()) {
    // What was seen before comes once more after a crash; a service keeps these ids in its own transaction.
    const id = message.headers?.get('id') ?? ''
    if (!seen.has(id)) console.log(message.headers?.get('eventType'), message.string())
    seen.add(id)
    message.ack()
    if (seen.size === eventTypes.length) break
  }
})

await manager.streams.delete(stream)
await connection.close()
