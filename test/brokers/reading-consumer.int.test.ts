import { beforeAll, expect, it, vi } from 'vitest'
import { createConsumer } from '../../src/consumer/index.ts'
import { testMessage } from '../../src/testing/test-message.ts'
import { atEndOfFile } from '../support/cleanups.ts'
import { type TestDatabase, createTestDatabase } from '../support/postgres.ts'
import { type TcpProxy, createProxy } from '../support/proxy.ts'
import { describeWith } from '../support/services.ts'
import { type ReadingBench, readingBrokers } from './reading-bench.ts'

vi.setConfig({ testTimeout: 120_000 })

let db: TestDatabase

beforeAll(async () => {
  db = await createTestDatabase()
  await db.query('CREATE TABLE handled (n serial, queue text, aggregate_id text, event_id text)')
})

async function handled(queue: string) {
  const { rows } = await db.query('SELECT aggregate_id, event_id FROM handled WHERE queue = $1 ORDER BY n', [
    queue,
  ])
  return rows as { aggregate_id: string; event_id: string }[]
}

for (const broker of readingBrokers) {
  describeWith(broker.service, `a consumer of ${broker.name}`, () => {
    let bench: ReadingBench
    let proxy: TcpProxy

    beforeAll(async () => {
      bench = await broker.start()
      proxy = await createProxy(bench.server.port)
    })

    async function start(topic: string, readers: 'exclusive' | 'shared') {
      const consumer = createConsumer({
        name: `${broker.name} ${topic}`,
        database: db.url,
        schema: db.schema,
        source: bench.source(topic, proxy.port, { readers, prefetch: 20 }),
        handlers: {
          '*': async ({ event, tx }) => {
            await tx.query('INSERT INTO handled (queue, aggregate_id, event_id) VALUES ($1, $2, $3)', [
              `${broker.name} ${topic}`,
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

    it.each(['exclusive', 'shared'] as const)(
      'handles each event once while processes come and go, connections break, the broker restarts and messages come twice (%s)',
      async (readers) => {
        const topic = await bench.newQueue()
        const name = `${broker.name} ${topic}`
        const messages = Array.from({ length: 400 }, (_, index) =>
          testMessage({ topic, aggregateId: `aggregate ${index % 20}` }),
        )
        const untilHandled = (count: number) =>
          vi.waitFor(async () => expect((await handled(name)).length).toBeGreaterThanOrEqual(count), {
            timeout: 60_000,
          })

        const first = await start(topic, readers)
        await bench.send(messages.slice(0, 100))
        await untilHandled(10)
        const second = await start(topic, readers)
        await bench.sendForeign(topic, 'no event')
        await bench.send(messages.slice(100, 200))
        proxy.reset()
        await untilHandled(120)
        await first.stop()
        // As after a call without an answer: some of it again, under ids that the broker does not know.
        await bench.send(messages.slice(200, 300))
        await bench.send(
          messages.slice(250, 300).map((message) => ({ ...message, messageId: `${message.eventId}.r1` })),
        )
        await bench.server.kill('SIGTERM')
        await bench.server.restart()
        await bench.send(messages.slice(300))
        await untilHandled(400)
        await second.stop()

        const rows = await handled(name)
        expect(rows).toHaveLength(400)
        expect(new Set(rows.map(({ event_id: id }) => id))).toEqual(
          new Set(messages.map(({ eventId }) => eventId)),
        )
        if (readers === 'exclusive') {
          for (let aggregate = 0; aggregate < 20; aggregate++) {
            const id = `aggregate ${aggregate}`
            expect(
              rows.filter(({ aggregate_id: of }) => of === id).map(({ event_id: event }) => event),
            ).toEqual(messages.filter(({ aggregateId }) => aggregateId === id).map(({ eventId }) => eventId))
          }
        }
        // What is no event is a dead letter, with what it was.
        const { rows: dead } = await db.query(
          `SELECT body FROM "waybill".consumer_messages WHERE consumer = $1 AND state = 'dead'`,
          [name],
        )
        expect(dead.map(({ body }) => String(body))).toEqual(['no event'])
      },
    )
  })
}
