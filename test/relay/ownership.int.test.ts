import { setTimeout as delay } from 'node:timers/promises'
import { beforeEach, describe, expect, test } from 'vitest'
import type { PublishResult } from '../../src/publishing/publisher.ts'
import { type TestDatabase, createTestDatabase, startTestServer } from '../support/postgres.ts'
import { insertEvents, numbers, readEvents, testRelay, upTo } from './harness.ts'
import { recordingPublisher } from './recording-publisher.ts'

let database: TestDatabase
beforeEach(async () => {
  database = await createTestDatabase()
})

const published: PublishResult = { status: 'published' }

/** One outcome that comes only when the test says so. */
function gate() {
  let open!: (result: PublishResult) => void
  const result = new Promise<PublishResult>((resolve) => (open = resolve))
  return { open, result }
}

async function owners(): Promise<number[]> {
  const rows = await database.rows<{ n: number }>(
    'SELECT count(*)::int AS n FROM "waybill".outbox_buckets WHERE owner IS NOT NULL GROUP BY owner ORDER BY 1',
  )
  return rows.map((row) => row.n)
}

/** What another relay does to a bucket whose lease ran out. */
async function takeAway(): Promise<void> {
  await database.query(
    `UPDATE "waybill".outbox_buckets SET owner = gen_random_uuid(), epoch = epoch + 1,
            leased_until = clock_timestamp() + interval '1 second'`,
  )
}

describe('buckets', () => {
  test('are shared evenly within seconds of a relay joining, and taken over at once when one leaves', async () => {
    const first = testRelay(database, { destinations: { bus: recordingPublisher() } })
    await first.start()
    await first.until('relay.buckets', ({ owned }) => owned === 64)
    const second = testRelay(database, { destinations: { bus: recordingPublisher() } })
    await second.start()
    await second.until('relay.buckets', ({ owned }) => owned === 32)
    expect(await owners()).toEqual([32, 32])
    const third = testRelay(database, { destinations: { bus: recordingPublisher() } })
    await third.start()
    await third.until('relay.buckets', ({ owned }) => owned >= 20)
    await Promise.all(
      [first, second].map((relay) => relay.until('relay.buckets', ({ owned }) => owned <= 22)),
    )
    const at = performance.now()
    await second.stop()
    await first.until('relay.buckets', ({ owned }, all) => owned === 32 && all.at(-1)!.taken > 0)
    // The regular round comes every 2.5 seconds: a clean stop does not wait for it.
    expect(performance.now() - at).toBeLessThan(2_000)
    await Promise.all([first.stop(), third.stop()])
    expect(await owners()).toEqual([])
    expect(await database.rows('SELECT FROM "waybill".outbox_relays')).toEqual([])
  })

  test('of a relay that says nothing more go to another, which handles their first events with care', async () => {
    await insertEvents(
      database,
      upTo(30).map((n) => ({ aggregate: `a-${n % 3}`, payload: { n } })),
    )
    await database.query(
      `UPDATE "waybill".outbox_buckets SET owner = '00000000-0000-4000-8000-000000000000', epoch = 7,
              leased_until = clock_timestamp() + interval '1 second'`,
    )
    const publisher = recordingPublisher()
    const relay = testRelay(database, { destinations: { bus: publisher }, leaseMs: 1_000 })
    const at = performance.now()
    await relay.start()
    await publisher.untilDelivered(30)
    expect(performance.now() - at).toBeGreaterThan(900)
    expect(relay.events('relay.crash_suspected')).toHaveLength(64)
    for (const a of ['a-0', 'a-1', 'a-2'])
      expect(numbers(publisher.bodies(a))).toEqual(numbers(publisher.bodies(a)).toSorted((x, y) => x - y))
    await relay.stop()
    expect((await readEvents(database)).every((row) => row.published && row.crashes === 0)).toBe(true)
  })

  test('that were taken away while a call was under way: its mark changes nothing and says so', async () => {
    await insertEvents(database, [{ payload: { n: 1 } }])
    const held = gate()
    const publisher = recordingPublisher({ behave: () => held.result })
    const relay = testRelay(database, { destinations: { bus: publisher }, leaseMs: 600_000 })
    await relay.start()
    await publisher.untilCalled(1)
    await takeAway()
    held.open(published)
    await relay.until('relay.lease_lost', ({ dropped }) => dropped === 1)
    expect(await readEvents(database)).toMatchObject([{ published: false, attempts: 0 }])
    await relay.stop()
  })

  test.for([
    ['a failure', { status: 'retry', error: new Error('nack') }],
    ['a refusal', { status: 'reject', error: new Error('never') }],
  ] as const)('that were taken away: %s is not written either', async ([, result]) => {
    await insertEvents(database, [{ payload: { n: 1 } }])
    const held = gate()
    const publisher = recordingPublisher({ behave: () => held.result })
    const relay = testRelay(database, { destinations: { bus: publisher }, leaseMs: 600_000 })
    await relay.start()
    await publisher.untilCalled(1)
    await takeAway()
    held.open(result)
    await relay.until('relay.lease_lost')
    expect(await readEvents(database)).toMatchObject([
      { published: false, dead: false, attempts: 0, last_error: null },
    ])
    await relay.stop({ graceMs: 0 })
  })

  test('are not worked on once the lease may have run out on this side, though nobody took them', async () => {
    const publisher = recordingPublisher()
    const relay = testRelay(database, { destinations: { bus: publisher }, leaseMs: 1_000 })
    await relay.start()
    await relay.until('relay.buckets', ({ owned }) => owned === 64)
    // Renewals wait for this lock; reads and inserts do not.
    const blocker = await database.connect()
    await blocker.query('BEGIN')
    await blocker.query(database.sql('SELECT FROM "waybill".outbox_buckets FOR UPDATE'))
    await relay.until('database.down')
    await delay(1_100)
    await insertEvents(database, [{ payload: { n: 1 } }])
    await relay.until('relay.wakeup', ({ source }) => source === 'notify' || source === 'poll')
    await delay(200)
    expect(publisher.calls).toHaveLength(0)
    await blocker.query('ROLLBACK')
    await publisher.untilDelivered(1)
    // It took its own lease again: nobody is suspected.
    expect(relay.events('relay.crash_suspected')).toEqual([])
    await relay.stop()
  })

  test('an old owner that wakes up after its lease does nothing to what the new one does', async () => {
    await insertEvents(
      database,
      upTo(6).map((n) => ({ payload: { n } })),
    )
    const held = gate()
    const order: number[] = []
    const note = (body: string) => {
      order.push(...numbers([body]))
      return published
    }
    let calls = 0
    const slow = recordingPublisher({
      behave: ({ body }) => (calls++ === 0 ? held.result : note(body)),
    })
    const first = testRelay(database, { destinations: { bus: slow }, leaseMs: 600_000 })
    await first.start()
    await slow.untilCalled(1)
    await database.query(
      `UPDATE "waybill".outbox_buckets SET owner = gen_random_uuid(), epoch = epoch + 1,
              leased_until = clock_timestamp() - interval '1 second'`,
    )
    await database.query(
      `UPDATE "waybill".outbox_relays SET expires_at = clock_timestamp() - interval '1 second'`,
    )
    const publisher = recordingPublisher({ behave: ({ body }) => note(body) })
    const second = testRelay(database, { destinations: { bus: publisher }, leaseMs: 1_000 })
    await second.start()
    // Whoever has the bucket by then: all of them, while the old call is still under way.
    while ((await readEvents(database)).some((row) => !row.published)) await delay(20)
    expect(order).toEqual(upTo(6))
    const receipts = await readEvents(database)
    held.open({ status: 'published', receipt: 'from the old call' })
    await first.until('batch.finished', ({ published: count }) => count === 1)
    await first.stop()
    await second.stop()
    // The mark of the old call changed nothing.
    expect(await readEvents(database)).toEqual(receipts)
    expect(first.events('relay.lease_lost').length).toBeGreaterThan(0)
  })
})

describe('life cycle', () => {
  test('a clean stop waits for the call under way, records it, and takes nothing more', async () => {
    await insertEvents(
      database,
      upTo(10).map((n) => ({ payload: { n } })),
    )
    const held = gate()
    const publisher = recordingPublisher({ behave: () => held.result })
    const relay = testRelay(database, { destinations: { bus: publisher } })
    await relay.start()
    await publisher.untilCalled(1)
    const stopped = relay.stop()
    held.open(published)
    expect(await stopped).toEqual({ clean: true })
    expect((await readEvents(database)).map((row) => row.published)).toEqual([
      true,
      ...upTo(9).map(() => false),
    ])
    expect(await owners()).toEqual([])
  })

  test('drain waits for the buckets of a relay that died, and delivers theirs too', async () => {
    await insertEvents(database, [{ payload: { n: 1 } }])
    await database.query(
      `UPDATE "waybill".outbox_buckets SET owner = '00000000-0000-4000-8000-000000000000', epoch = 7,
              leased_until = clock_timestamp() + interval '1 second'`,
    )
    const publisher = recordingPublisher()
    const report = await testRelay(database, { destinations: { bus: publisher }, leaseMs: 1_000 }).drain()
    expect(report).toMatchObject({ published: 1, stuck: 0 })
  })

  test('drain says what another relay keeps and does not deliver', async () => {
    await insertEvents(database, [{ payload: { n: 1 } }])
    await database.query(
      `UPDATE "waybill".outbox_buckets SET owner = '00000000-0000-4000-8000-000000000000', epoch = 7,
              leased_until = clock_timestamp() + interval '1 hour'`,
    )
    const publisher = recordingPublisher()
    const report = await testRelay(database, { destinations: { bus: publisher }, leaseMs: 1_000 }).drain()
    expect(report).toMatchObject({ published: 0, stuck: 1 })
  })

  test('an overrun of the grace time is told, and the event stays pending', async () => {
    await insertEvents(database, [{ payload: { n: 1 } }])
    const publisher = recordingPublisher({ behave: () => new Promise<PublishResult>(() => undefined) })
    const relay = testRelay(database, { destinations: { bus: publisher } })
    await relay.start()
    await publisher.untilCalled(1)
    expect(await relay.stop({ graceMs: 50 })).toEqual({ clean: false })
    expect(await readEvents(database)).toMatchObject([{ published: false, attempts: 0 }])
  })

  test('refuses to start on a schema that is not migrated', async () => {
    const empty = await createTestDatabase({ migrated: false })
    const relay = testRelay(empty, { destinations: { bus: recordingPublisher() } })
    await expect(relay.start()).rejects.toMatchObject({ code: 'SCHEMA_MISSING' })
  })

  test('starts while the database is down, says so, and goes on by itself', async () => {
    const server = await startTestServer({})
    const own = await createTestDatabase({ server })
    await insertEvents(own, [{ payload: { n: 1 } }])
    await own.client.end()
    await server.kill('SIGINT')
    const publisher = recordingPublisher()
    const relay = testRelay(own, { destinations: { bus: publisher } })
    await relay.start()
    await relay.until('database.down')
    expect(relay.health()).toMatchObject({
      live: true,
      ready: false,
      reason: expect.stringContaining('database'),
    })
    await server.restart()
    await publisher.untilDelivered(1)
    await relay.until('database.up')
    expect(relay.health()).toEqual({ live: true, ready: true, reason: null })
    await relay.stop()
    await server.stop()
  })

  test('goes on after every one of its sessions is terminated, again and again', async () => {
    const publisher = recordingPublisher({ behave: () => delay(2).then(() => published) })
    const relay = testRelay(database, { destinations: { bus: publisher }, leaseMs: 2_000 })
    await relay.start()
    for (const round of upTo(5)) {
      await insertEvents(
        database,
        upTo(40).map((n) => ({ aggregate: `a-${n % 4}`, payload: { n: round * 100 + n } })),
      )
      await publisher.untilDelivered((round - 1) * 40 + 10)
      const [killed] = await database.rows<{ n: number }>(
        `SELECT count(pg_terminate_backend(pid))::int AS n FROM pg_stat_activity
         WHERE datname = current_database() AND pid <> pg_backend_pid()`,
      )
      expect(killed!.n).toBeGreaterThanOrEqual(2)
      await publisher.untilDelivered(round * 40)
    }
    await relay.stop()
    const rows = await readEvents(database)
    expect(rows.every((row) => row.published && row.attempts === 0)).toBe(true)
    const first = new Map<string, number>()
    for (const { message } of publisher.delivered) {
      if (!first.has(message.eventId))
        first.set(message.eventId, (JSON.parse(message.body) as { n: number }).n)
    }
    expect(first.size).toBe(200)
  })
})
