import { setTimeout as delay } from 'node:timers/promises'
import { describe, test } from 'vitest'
import { type TestRelay, testRelay } from '../relay/harness.ts'
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
      await blocker.query('BEGIN; LOCK TABLE waybill.outbox_events IN ACCESS EXCLUSIVE MODE')
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
