import { setTimeout as delay } from 'node:timers/promises'
import { describe, test } from 'vitest'
import { type TestRelay, insertEvents, testRelay } from '../relay/harness.ts'
import { type Ledger, createLedger } from '../support/ledger.ts'
import { type TestDatabase, createTestDatabase } from '../support/postgres.ts'
import { eventually, expectWhole, ledgerBroker, readSessions, untilWaiting, wake } from './kit.ts'

interface Work {
  database: TestDatabase
  ledger: Ledger
  relay: TestRelay
  /** Ends the writing and the relay, and looks at what became of it. */
  finish(): Promise<void>
}

async function startWork(): Promise<Work> {
  const database = await createTestDatabase()
  const ledger = await createLedger(database)
  const relay = testRelay(database, { destinations: { bus: ledgerBroker(ledger, { takesMs: 1 }) } })
  await relay.start()
  await relay.until('relay.buckets', ({ owned }) => owned === 64)
  const writers = ledger.startWriters()
  await ledger.untilArrivals(20)
  return {
    ...{ database, ledger, relay },
    async finish() {
      await writers.stop()
      await ledger.untilDelivered()
      await relay.stop()
      await expectWhole(ledger, database)
    },
  }
}

describe.concurrent('under load, somebody', () => {
  test('adds and drops columns of the outbox: nobody waits for long, nothing is lost', async ({ expect }) => {
    const { database, ledger, finish } = await startWork()
    const waits: number[] = []
    for (let round = 0; round < 10; round++) {
      const at = performance.now()
      await database.query('ALTER TABLE "waybill".outbox_events ADD COLUMN note text')
      await database.query('ALTER TABLE "waybill".outbox_events DROP COLUMN note')
      waits.push(performance.now() - at)
      await ledger.untilArrivals(10)
    }
    expect(Math.max(...waits)).toBeLessThan(3_000)
    await finish()
  })

  test('changes the type of a column that the relay reads: prepared statements are made anew', async ({
    expect,
  }) => {
    const { database, ledger, relay, finish } = await startWork()
    const type = async (name: string) => {
      await database.query('BEGIN')
      await database.query('DROP VIEW "waybill".outbox_dead_letters')
      await database.query(`ALTER TABLE "waybill".outbox_events ALTER COLUMN crashes TYPE ${name}`)
      await database.query(
        `CREATE VIEW "waybill".outbox_dead_letters AS SELECT * FROM "waybill".outbox_events`,
      )
      await database.query('COMMIT')
    }
    await type('bigint')
    await ledger.untilArrivals(20)
    expect(relay.events('database.down')).toMatchObject([{ error: expect.stringContaining('cached plan') }])
    await type('integer')
    await ledger.untilArrivals(20)
    await finish()
  })

  test('empties the outbox and lets the numbers begin again: what is written then comes at once, in order', async ({
    expect,
  }) => {
    const database = await createTestDatabase()
    const delivered: string[] = []
    const relay = testRelay(database, {
      destinations: {
        bus: {
          name: 'bus',
          capabilities: { ordering: 'per-call', deduplication: false },
          publish: async (messages) => {
            delivered.push(...messages.map(({ eventId }) => eventId))
            return messages.map(() => ({ status: 'published' }))
          },
          close: () => Promise.resolve(),
        },
      },
    })
    await relay.start()
    const events = (count: number) =>
      Array.from({ length: count }, (_, n) => ({ aggregate: `a-${n % 5}`, payload: { n } }))
    await insertEvents(database, events(300))
    await eventually('the first are out', () => Promise.resolve(delivered.length === 300))

    // More than there were: the sequence is never seen below where it was.
    await database.query('BEGIN')
    await database.query('TRUNCATE "waybill".outbox_events RESTART IDENTITY')
    const ids = await insertEvents(database, events(600))
    await database.query('COMMIT')
    await eventually('the others are out', () => Promise.resolve(delivered.length === 900), 10_000)
    const later = delivered.slice(300)
    for (let a = 0; a < 5; a++) {
      const mine = ids.filter((_, n) => n % 5 === a)
      expect(later.filter((id) => mine.includes(id))).toEqual(mine)
    }
  })

  test(
    'keeps an old snapshot: what settles an event does not walk the dead entries of the index',
    { timeout: 60_000 },
    async ({ expect }) => {
      const database = await createTestDatabase()
      const ledger = await createLedger(database)
      const old = await database.connect()
      await old.query('BEGIN ISOLATION LEVEL REPEATABLE READ')
      await old.query('SELECT 1')
      await database.query(`INSERT INTO "waybill".outbox_events (aggregate_type, aggregate_id, event_type, payload)
      SELECT 'old', 'o-' || n % 5000, 'old.event', '{}' FROM generate_series(1, 200000) AS n`)
      await database.query('UPDATE "waybill".outbox_events SET processed_at = now()')
      // The planner learns that next to nothing is pending.
      await database.query('ANALYZE "waybill".outbox_events')
      await ledger.write(1_000)
      const relay = testRelay(database, { destinations: { bus: ledgerBroker(ledger) }, batchSize: 20 })
      await relay.start()
      await ledger.untilDelivered()
      await relay.stop()
      await eventually('the sessions ended', async () => (await readSessions(database)).length === 0)
      const [index] = await database.rows<{ read: string }>(
        `SELECT idx_tup_read AS read FROM pg_stat_user_indexes WHERE indexrelname = 'outbox_events_pending'`,
      )
      // A few times through what is dead, to open the buckets, and nothing like once for each event.
      expect(Number(index!.read)).toBeGreaterThan(1_000)
      expect(Number(index!.read)).toBeLessThan(500_000)
      await old.query('ROLLBACK')
      expect(await ledger.verdict()).toMatchObject({ written: 1_000, delivered: 1_000, lost: 0 })
    },
  )

  test.for([false, true])(
    'fills an outbox that was empty when the relay began (vacuumed: %s): its statements do not read all of it',
    async (vacuumed, { expect }) => {
      const database = await createTestDatabase()
      const ledger = await createLedger(database)
      // Nobody tells the planner that it has grown.
      await database.query('ALTER TABLE "waybill".outbox_events SET (autovacuum_enabled = off)')
      if (vacuumed) await database.query('VACUUM ANALYZE "waybill".outbox_events')
      const relay = testRelay(database, { destinations: { bus: ledgerBroker(ledger) } })
      await relay.start()
      // So often that its statements have the plans that stay.
      for (let n = 0; n < 20; n++) {
        await ledger.write(1)
        await ledger.untilDelivered()
      }
      await ledger.write(2_000)
      await ledger.untilDelivered()
      await relay.stop()
      await eventually('the sessions ended', async () => (await readSessions(database)).length === 0)
      const [table] = await database.rows<{ scans: string; lookups: string }>(
        `SELECT seq_scan AS scans, idx_scan AS lookups FROM pg_stat_user_tables WHERE relname = 'outbox_events'`,
      )
      expect(Number(table!.lookups)).toBeGreaterThan(2_000)
      expect(table!.scans).toBe('0')
      await expectWhole(ledger, database)
    },
  )

  test('rewrites the outbox (VACUUM FULL), clusters and reindexes it', async ({ expect }) => {
    const { database, ledger, finish } = await startWork()
    const files = () =>
      database.rows(`SELECT pg_relation_filenode('"waybill".outbox_events') AS events,
        pg_relation_filenode('"waybill".outbox_events_pending') AS pending,
        pg_relation_filenode('"waybill".outbox_buckets') AS buckets`)
    const [before] = await files()
    for (let round = 0; round < 3; round++) {
      await database.query('VACUUM FULL "waybill".outbox_events')
      await ledger.untilArrivals(10)
      await database.query('CLUSTER "waybill".outbox_events USING outbox_events_position')
      await ledger.untilArrivals(10)
      await database.query('REINDEX TABLE "waybill".outbox_events')
      await ledger.untilArrivals(10)
      await database.query('VACUUM FULL "waybill".outbox_buckets, "waybill".outbox_relays')
      await ledger.untilArrivals(10)
    }
    const [after] = await files()
    for (const name of Object.keys(before!)) expect(after![name]).not.toBe(before![name])
    await finish()
  })

  test(
    'locks the outbox for longer than the relay waits for an answer: the tries do not pile up on the server',
    { timeout: 60_000 },
    async ({ expect }) => {
      const { database, ledger, relay, finish } = await startWork()
      const blocker = await database.connect()
      await blocker.query(database.sql('BEGIN; LOCK TABLE "waybill".outbox_events IN ACCESS EXCLUSIVE MODE'))
      await wake(database)
      await untilWaiting(database, 'waybill read')
      const seen = ledger.arrivedAt.length
      const counts: number[] = []
      for (const end = performance.now() + 14_000; performance.now() < end; await delay(200))
        counts.push((await readSessions(database)).length)
      await relay.until('database.down')
      expect(ledger.arrivedAt.length - seen).toBeLessThan(100)
      await blocker.query('ROLLBACK')
      const at = performance.now()
      await ledger.untilArrivals(20)
      expect(performance.now() - at).toBeLessThan(8_000)
      // Four, and for two seconds those that were just given up.
      expect(Math.max(...counts)).toBeLessThanOrEqual(6)
      await eventually('four are left', async () => (await readSessions(database)).length <= 4)
      await finish()
      expect(relay.events('relay.lease_lost')).toEqual([])
    },
  )
})
