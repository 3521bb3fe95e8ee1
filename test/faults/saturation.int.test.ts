import { setTimeout as delay } from 'node:timers/promises'
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { type Publisher, type PublishResult, rejectedBy } from '../../src/publishing/publisher.ts'
import { insertEvents, readEvents, testRelay, upTo } from '../relay/harness.ts'
import { recordingPublisher } from '../relay/recording-publisher.ts'
import { type TestDatabase, createTestDatabase } from '../support/postgres.ts'
import { eventually } from './kit.ts'

let database: TestDatabase
beforeEach(async () => {
  database = await createTestDatabase()
  // A mark takes its time: while one is written, the next outcomes come.
  await database.query(
    `CREATE FUNCTION public.take_time() RETURNS trigger LANGUAGE plpgsql AS $$
     BEGIN PERFORM pg_sleep(0.03); RETURN NULL; END $$;
     CREATE TRIGGER take_time BEFORE UPDATE ON "waybill".outbox_events EXECUTE FUNCTION public.take_time()`,
  )
})

const published: PublishResult = { status: 'published' }

/** Confirms one event after the other, without an end. */
function steadyPublisher(): Publisher & { confirmed: number } {
  const publisher: Publisher & { confirmed: number } = {
    name: 'steady',
    capabilities: { ordering: 'per-call', deduplication: false },
    confirmed: 0,
    async publish(messages, { onPublished }) {
      for (const index of messages.keys()) {
        await delay(1)
        publisher.confirmed++
        onPublished?.(index)
      }
      return messages.map(() => published)
    },
    close: () => Promise.resolve(),
  }
  return publisher
}

/** Keeps it at work in the upper half of the buckets: never so many events that others would wait behind them, never none. */
function feed(busy: { readonly confirmed: number }): void {
  let fed = 0
  let number = 0
  let over = false
  onTestFinished(() => void (over = true))
  void (async () => {
    while (!over) {
      if (fed - busy.confirmed > 300) await delay(5)
      else {
        const rows = await database.rows(
          `INSERT INTO "waybill".outbox_events (aggregate_type, aggregate_id, event_type, payload)
           SELECT 'order', 'busy-' || n, 'busy.event', '{}' FROM generate_series($1::int, $1 + 199) AS n
           WHERE "waybill".outbox_bucket('order', 'busy-' || n) >= 32 RETURNING id`,
          [number],
        )
        fed += rows.length
        number += 200
      }
    }
  })()
}

const routes = ({ eventType }: { eventType: string }) => ({ to: eventType === 'busy.event' ? 'busy' : 'bus' })

describe('while outcomes come without a pause', () => {
  test('five equal refusals go back all the same, and their destination goes on', async () => {
    const busy = steadyPublisher()
    let wrong = true
    const bus = recordingPublisher({
      behave: () => (wrong ? { status: 'reject', error: rejectedBy('HTTP 404', 'answered 404') } : published),
    })
    const relay = testRelay(database, { destinations: { bus, busy }, routes, batchSize: 10 })
    await relay.start()
    feed(busy)
    await eventually('the relay is busy', async () => busy.confirmed > 200)
    await insertEvents(
      database,
      upTo(5).map((n) => ({ aggregate: `a-${n}`, payload: { n } })),
    )
    await relay.until('destination.down')
    const before = busy.confirmed
    await eventually('they are restored', async () => relay.events('event.restored').length > 0, 5_000)
    expect(busy.confirmed).toBeGreaterThan(before)
    wrong = false
    await eventually('they are delivered', async () => bus.delivered.length === 5, 5_000)
    await relay.stop({ graceMs: 5_000 })
    expect((await readEvents(database)).filter(({ dead }) => dead)).toEqual([])
  })

  test('events that may have ended a relay are all tried: none waits until nothing else is settled', async () => {
    const busy = steadyPublisher()
    const bus = recordingPublisher()
    const relay = testRelay(database, { destinations: { bus, busy }, routes, batchSize: 5, leaseMs: 2_000 })
    // The other half belongs to a relay that is dead, and whose lease runs out soon.
    await database.query(
      `UPDATE "waybill".outbox_buckets SET owner = gen_random_uuid(), epoch = 7,
              leased_until = clock_timestamp() + interval '3 seconds' WHERE bucket < 32`,
    )
    await insertEvents(
      database,
      upTo(200).map((n) => ({ aggregate: `a-${n}`, payload: { n } })),
    )
    await relay.start()
    feed(busy)
    await relay.until('relay.crash_suspected')
    const before = busy.confirmed
    await eventually('all are delivered', async () => bus.delivered.length === 200, 20_000)
    expect(busy.confirmed).toBeGreaterThan(before)
    await relay.stop({ graceMs: 5_000 })
    expect((await readEvents(database)).filter(({ crashes }) => crashes > 0)).toEqual([])
  })
})
