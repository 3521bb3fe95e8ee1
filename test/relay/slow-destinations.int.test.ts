import { setTimeout as delay } from 'node:timers/promises'
import { beforeEach, describe, expect, test } from 'vitest'
import { createConnection } from '../../src/database/connection.ts'
import { retryDeadLetters } from '../../src/operations/dead-letters.ts'
import {
  type Message,
  type PublishResult,
  brokerUnavailable,
  rejectedBy,
} from '../../src/publishing/publisher.ts'
import { eventually } from '../faults/kit.ts'
import { atEndOfFile } from '../support/cleanups.ts'
import { type Ledger, createLedger, whole } from '../support/ledger.ts'
import { type TestDatabase, createTestDatabase } from '../support/postgres.ts'
import { insertEvents, numbers, readEvents, testRelay, upTo } from './harness.ts'
import { type Behaviour, type RecordingPublisher, recordingPublisher } from './recording-publisher.ts'

let database: TestDatabase
let ledger: Ledger
beforeEach(async () => {
  database = await createTestDatabase()
  ledger = await createLedger(database)
})

const published: PublishResult = { status: 'published' }
const n = (message: Message) => (JSON.parse(message.body) as { n: number }).n
/** Events of the ledger go to the slow destination, all others to the fast one. */
const routes = [{ aggregateType: 'ledger', to: 'slow' }, { to: 'fast' }]

/** Takes seconds for each call until it is told to hurry: then also what is under way ends at once. */
function slowPublisher({
  takesMs = 2_000,
  behave = () => published,
}: { takesMs?: number; behave?: Behaviour } = {}) {
  const mine = ledger
  const hurry = new AbortController()
  const publisher = recordingPublisher({
    ordering: 'per-call',
    async onCall() {
      const { signal } = hurry
      if (!signal.aborted) await delay(takesMs, undefined, { signal }).catch(() => undefined)
    },
    behave(message, signal) {
      if (message.aggregateType === 'ledger') mine.arrived(message)
      return behave(message, signal)
    },
  })
  return Object.assign(publisher, { hurry: () => hurry.abort() })
}

/** Milliseconds from the insert to the delivery, one event at a time. */
async function latencies(fast: RecordingPublisher, rounds: number): Promise<number[]> {
  const measured: number[] = []
  const before = fast.delivered.length
  for (let i = 1; i <= rounds; i++) {
    const sentAt = performance.now()
    await insertEvents(database, [{ aggregate: `fast-${i % 7}`, type: 'to.fast', payload: { n: i } }])
    await fast.untilDelivered(before + i)
    measured.push(performance.now() - sentAt)
    await delay(50)
  }
  return measured
}

const median = (of: readonly number[]) => of.toSorted((a, b) => a - b)[of.length >> 1]!

async function expectInTime(fast: RecordingPublisher): Promise<void> {
  // The first may come while what was written before is still being passed.
  await latencies(fast, 1)
  expect(median(await latencies(fast, 20))).toBeLessThan(1_000)
  for (const i of [0, 1, 2, 3, 4, 5, 6]) {
    const got = numbers(fast.bodies(`fast-${i}`)).slice(i === 1 ? 1 : 0)
    expect(got).toEqual(got.toSorted((a, b) => a - b))
  }
}

async function pending(where = 'true'): Promise<number> {
  const [row] = await database.rows<{ count: string }>(
    `SELECT count(*) FROM "waybill".outbox_events WHERE processed_at IS NULL AND dead_at IS NULL AND ${where}`,
  )
  return Number(row!.count)
}

async function expectAllPublished(): Promise<void> {
  expect((await readEvents(database)).filter((row) => !row.published || row.attempts > 0)).toEqual([])
}

/** So many events for the slow destination, of as many aggregates, by one statement. */
function fillSlow(count: number): Promise<unknown> {
  return database.query(
    `INSERT INTO "waybill".outbox_events (aggregate_type, aggregate_id, event_type, payload)
     SELECT 'order', 's-' || i, 'to.slow', '{"n": 1}' FROM generate_series(1, $1::int) AS i`,
    [count],
  )
}
const byType = [{ eventType: 'to.slow', to: 'slow' }, { to: 'fast' }]

describe('a destination that is slow', { timeout: 120_000 }, () => {
  test.for([
    ['20 000 events of 8 000 aggregates', { events: 20_000, aggregates: 8_000 }],
    ['20 000 events of 100 aggregates', { events: 20_000, aggregates: 100 }],
    ['5 000 events of a single aggregate', { events: 5_000, aggregates: 1 }],
    ['20 000 events in a single bucket', { events: 20_000, aggregates: 1_000, buckets: 1 }],
  ] as const)(
    'with %s before it does not hold back another, and catches up when it is fast again',
    async ([, { events, aggregates, ...options }]) => {
      if ('buckets' in options) {
        database = await createTestDatabase(options)
        ledger = await createLedger(database)
      }
      await ledger.write(events, { aggregates })
      const [slow, fast] = [slowPublisher(), recordingPublisher()]
      const relay = testRelay(database, { destinations: { slow, fast }, routes })
      await relay.start()
      await slow.untilCalled(1)
      await expectInTime(fast)
      expect(await pending()).toBeGreaterThan(events * 0.7)
      slow.hurry()
      await ledger.untilDelivered(80_000)
      await relay.stop()
      expect(await ledger.verdict()).toEqual(whole(events))
      await expectAllPublished()
    },
  )

  test('does not hold back another either when both are slow and a third is not', async () => {
    await fillSlow(10_000)
    await ledger.write(10_000, { aggregates: 3_000 })
    const [slow, second, fast] = [slowPublisher(), slowPublisher(), recordingPublisher()]
    const relay = testRelay(database, {
      destinations: { slow, second, fast },
      routes: [{ aggregateType: 'ledger', to: 'second' }, ...byType],
    })
    await relay.start()
    // Neither of the two waits for the other.
    await Promise.all([slow.untilCalled(1), second.untilCalled(1)])
    await expectInTime(fast)
    await Promise.all([slow.untilDelivered(500), second.untilDelivered(500)])
    slow.hurry()
    second.hurry()
    await Promise.all([ledger.untilDelivered(), slow.untilDelivered(10_000)])
    await relay.stop()
    expect(await ledger.verdict()).toEqual(whole(10_000))
    await expectAllPublished()
  })

  test('does not hold back another while a writer stays open that keeps the low-water mark back', async () => {
    const writer = await database.connect()
    await writer.query('BEGIN')
    await writer.query(
      database.sql(`INSERT INTO "waybill".outbox_events (aggregate_type, aggregate_id, event_type, payload)
       VALUES ('order', 'late', 'to.fast', '{"n": 1}')`),
    )
    await ledger.write(20_000, { aggregates: 10_000 })
    const [slow, fast] = [slowPublisher(), recordingPublisher()]
    const relay = testRelay(database, { destinations: { slow, fast }, routes })
    await relay.start()
    await slow.untilCalled(1)
    await expectInTime(fast)
    expect(await pending()).toBeGreaterThan(10_000)
    await writer.query('COMMIT')
    await eventually('the late event is out', () => Promise.resolve(fast.bodies('late').length === 1))
    slow.hurry()
    await ledger.untilDelivered()
    await relay.stop()
    expect(await ledger.verdict()).toEqual(whole(20_000))
    await expectAllPublished()
  })

  test('holds back an aggregate only as long as its next event goes there', async () => {
    // More than memory holds, so that the first event of the aggregate is met when there is no room for it.
    await fillSlow(5_000)
    await insertEvents(database, [{ aggregate: 'both', type: 'to.slow', payload: { n: 1 } }])
    await database.query(
      `INSERT INTO "waybill".outbox_events (aggregate_type, aggregate_id, event_type, payload)
       SELECT 'order', 't-' || i, 'to.slow', '{"n": 1}' FROM generate_series(1, 30000) AS i`,
    )
    await insertEvents(database, [{ aggregate: 'both', type: 'to.fast', payload: { n: 2 } }])
    const order: number[] = []
    const keep: Behaviour = (message) => {
      if (message.aggregateId === 'both') order.push(n(message))
      return published
    }
    const [slow, fast] = [slowPublisher({ takesMs: 500, behave: keep }), recordingPublisher({ behave: keep })]
    const relay = testRelay(database, { destinations: { slow, fast }, routes: byType })
    await relay.start()
    await eventually('its first event is out', () => Promise.resolve(order.length > 0), 25_000)
    const left = await pending(`event_type = 'to.slow'`)
    await fast.untilDelivered(1)
    expect(order).toEqual([1, 2])
    // Its turn did not come with that of the slow events before it.
    expect(left).toBeGreaterThan(10_000)
    expect(await pending(`event_type = 'to.slow'`)).toBeGreaterThan(left - 3_000)
    slow.hurry()
    await slow.untilDelivered(35_001)
    await relay.stop()
    await expectAllPublished()
  })

  test('keeps the order of aggregates whose events go there and elsewhere in turn', async () => {
    const got = new Map<string, number[]>()
    const keep: Behaviour = (message) => {
      const { aggregateId } = message
      if (aggregateId.startsWith('a-')) got.set(aggregateId, [...(got.get(aggregateId) ?? []), n(message)])
      return published
    }
    await fillSlow(3_000)
    for (const i of upTo(8)) {
      await insertEvents(
        database,
        upTo(300).map((a) => ({
          aggregate: `a-${a}`,
          type: (i + a) % 2 === 0 ? 'to.slow' : 'to.fast',
          payload: { n: i },
        })),
      )
    }
    const [slow, fast] = [slowPublisher({ takesMs: 100, behave: keep }), recordingPublisher({ behave: keep })]
    const relay = testRelay(database, {
      destinations: { slow, fast },
      routes: (event) => ({ to: event.eventType === 'to.slow' ? 'slow' : 'fast' }),
      batchSize: 50,
      workers: 1,
    })
    await relay.start()
    await fast.untilDelivered(300)
    slow.hurry()
    await slow.untilDelivered(3_000 + 1_200)
    await fast.untilDelivered(1_200)
    await relay.stop()
    for (const a of upTo(300)) expect(got.get(`a-${a}`)).toEqual(upTo(8))
    await expectAllPublished()
  })

  test('leaves nothing behind when buckets move while its events wait in the table', async () => {
    await ledger.write(20_000, { aggregates: 5_000 })
    const start = () => {
      const destinations = { slow: slowPublisher({ takesMs: 300 }), fast: recordingPublisher() }
      const relay = testRelay(database, { destinations, routes, leaseMs: 2_000 })
      return { relay, ...destinations }
    }
    const first = start()
    await first.relay.start()
    await first.slow.untilDelivered(100)
    const second = start()
    await second.relay.start()
    await second.slow.untilDelivered(100)
    await first.relay.stop()
    expect(await pending()).toBeGreaterThan(5_000)
    await expectInTime(second.fast)
    second.slow.hurry()
    await ledger.untilDelivered()
    await second.relay.stop()
    expect(await ledger.verdict()).toEqual(whole(20_000))
    await expectAllPublished()
  })

  test('keeps the order of an aggregate whose dead letter is taken back while its events wait', async () => {
    await fillSlow(4_000)
    const bad = { aggregate: 'bad', type: 'to.fast', payload: { n: 1 } }
    await insertEvents(database, [bad])
    await insertEvents(
      database,
      upTo(20).map((i) => ({ aggregate: 'bad', type: 'to.slow', payload: { n: i + 1 } })),
    )
    let rejects = true
    const order: number[] = []
    const behave: Behaviour = (message) => {
      if (message.aggregateId !== 'bad') return published
      if (n(message) === 1 && rejects) return { status: 'reject', error: rejectedBy('422', 'answered 422') }
      order.push(n(message))
      return published
    }
    const [slow, fast] = [slowPublisher({ takesMs: 300, behave }), recordingPublisher({ behave })]
    const relay = testRelay(database, {
      destinations: { slow, fast },
      routes: byType,
      afterDeadLetter: 'hold',
    })
    await relay.start()
    await relay.until('event.dead')
    await slow.untilDelivered(500)
    const db = createConnection({ databaseUrl: database.url, schema: database.schema })
    atEndOfFile(() => db.close())
    rejects = false
    const [dead] = (await readEvents(database)).filter((row) => row.dead)
    await retryDeadLetters(db, database.schema, { ids: [dead!.id] })
    await fast.untilDelivered(1)
    slow.hurry()
    await slow.untilDelivered(4_020)
    await relay.stop()
    expect(order).toEqual(upTo(21))
  })
})

describe('a destination that is away', { timeout: 120_000 }, () => {
  test('with more events than memory holds lets a drain come to its end', async () => {
    const away = (): RecordingPublisher =>
      recordingPublisher({
        onCall() {
          throw brokerUnavailable('refused')
        },
      })
    await fillSlow(3_000)
    const alone = await testRelay(database, { destinations: { slow: away() }, probeMaxMs: 20 }).drain()
    expect(alone).toMatchObject({ published: 0, dead: 0 })
    expect(alone.stuck).toBeGreaterThan(1_000)
    await insertEvents(database, [{ type: 'to.fast' }])
    const fast = recordingPublisher()
    const destinations = { slow: away(), fast }
    const both = await testRelay(database, { destinations, routes: byType, probeMaxMs: 20 }).drain()
    expect(both).toMatchObject({ published: 1, dead: 0 })
    expect(both.stuck).toBeGreaterThan(1_000)
  })

  test('for a while, and slow then, loses nothing', async () => {
    await ledger.write(10_000, { aggregates: 3_000 })
    let isAway = true
    const mine = ledger
    const slow = recordingPublisher({
      onCall: async () => {
        if (isAway) throw brokerUnavailable('refused')
        await delay(20)
      },
      behave(message) {
        mine.arrived(message)
        return published
      },
    })
    const fast = recordingPublisher()
    const relay = testRelay(database, { destinations: { slow, fast }, routes, probeMaxMs: 50 })
    await relay.start()
    await relay.until('destination.down')
    await expectInTime(fast)
    isAway = false
    await ledger.untilDelivered()
    await relay.stop()
    expect(await ledger.verdict()).toEqual(whole(10_000))
    await expectAllPublished()
  })
})
