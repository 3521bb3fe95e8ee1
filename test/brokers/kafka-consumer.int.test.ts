import { beforeAll, expect, it, vi } from 'vitest'
import { kafkaSource } from '../../src/brokers/kafka.ts'
import { createConsumer } from '../../src/consumer/index.ts'
import { testMessage } from '../../src/testing/test-message.ts'
import { atEndOfFile } from '../support/cleanups.ts'
import { type KafkaServer, startKafka } from '../support/kafka.ts'
import { type TestDatabase, createTestDatabase } from '../support/postgres.ts'
import { describeWith } from '../support/services.ts'
import { kafka, newTopic, publish, statuses } from './kafka-bench.ts'

vi.setConfig({ testTimeout: 120_000 })

let server: KafkaServer
let db: TestDatabase

describeWith('kafka-server', 'a consumer of Kafka', () => {
  beforeAll(async () => {
    server = await startKafka()
    db = await createTestDatabase()
    await db.query('CREATE TABLE handled (n serial, aggregate_id text, event_id text)')
  })

  async function start(topic: string) {
    const consumer = createConsumer({
      name: topic,
      database: db.url,
      schema: db.schema,
      source: kafkaSource({ brokers: [server.proxiedUrl], group: topic, topics: [topic], prefetch: 20 }),
      handlers: {
        '*': async ({ event, tx }) => {
          await tx.query('INSERT INTO handled (aggregate_id, event_id) VALUES ($1, $2)', [
            event.aggregateId,
            event.id,
          ])
        },
      },
    })
    atEndOfFile(() => consumer.stop())
    await consumer.start()
    return consumer
  }

  async function handled() {
    return (await db.query('SELECT aggregate_id, event_id FROM handled ORDER BY n')).rows as {
      aggregate_id: string
      event_id: string
    }[]
  }

  it('handles each event once and in order, while members come and go, connections break and messages come twice', async () => {
    const topic = await newTopic(server.url, { partitions: 4 })
    const publisher = await kafka(server.url)
    const messages = Array.from({ length: 400 }, (_, index) =>
      testMessage({ topic, aggregateId: `aggregate ${index % 20}` }),
    )
    const send = async (from: number, to: number) =>
      expect(new Set(statuses(await publish(publisher, messages.slice(from, to))))).toEqual(
        new Set(['published']),
      )
    const untilHandled = (count: number) =>
      vi.waitFor(async () => expect((await handled()).length).toBeGreaterThanOrEqual(count), {
        timeout: 60_000,
      })

    const first = await start(topic)
    await send(0, 100)
    await untilHandled(10)
    const second = await start(topic)
    await send(100, 200)
    server.proxy.reset()
    await untilHandled(120)
    await first.stop()
    await send(200, 400)
    // As after a call without an answer: all of it again.
    await send(200, 400)
    server.proxy.reset()
    await untilHandled(400)
    await second.stop()

    const rows = await handled()
    expect(rows).toHaveLength(400)
    for (let aggregate = 0; aggregate < 20; aggregate++) {
      const id = `aggregate ${aggregate}`
      expect(rows.filter(({ aggregate_id: of }) => of === id).map(({ event_id: event }) => event)).toEqual(
        messages.filter(({ aggregateId }) => aggregateId === id).map(({ eventId }) => eventId),
      )
    }
  })
})
