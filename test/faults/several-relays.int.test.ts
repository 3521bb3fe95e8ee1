import { setTimeout as delay } from 'node:timers/promises'
import pg from 'pg'
import { describe, expect, test } from 'vitest'
import { type TestRelay, testRelay, upTo } from '../relay/harness.ts'
import { type Ledger, createLedger, whole } from '../support/ledger.ts'
import { type TestDatabase, createTestDatabase, onceThere, startTestServer } from '../support/postgres.ts'
import { startCluster } from './cluster.ts'
import { createRandom, repeat } from './fixtures/random.ts'
import { eventually, expectWhole, ledgerBroker, readSessions, relaySessions } from './kit.ts'

/** With WAYBILL_TEST_LONG=1 an outage lasts as long as in life; otherwise a quarter, and so does the lease. */
const scale = process.env['WAYBILL_TEST_LONG'] === '1' ? 1 : 0.25
const count = 3

/** Three relays of one process, each with its own sessions, and one broker. */
async function startRelays(
  database: Pick<TestDatabase, 'url' | 'schema'>,
  ledger: Ledger,
  leaseMs = 10_000,
): Promise<TestRelay[]> {
  const bus = ledgerBroker(ledger, { takesMs: 2 })
  const relays = upTo(count).map(() => testRelay(database, { destinations: { bus }, leaseMs }))
  for (const relay of relays) await relay.start()
  for (const relay of relays) await relay.until('relay.buckets', ({ owned }) => owned > 0 && owned <= 22)
  return relays
}

/** The test's own connection may have gone with the server, and that one may not be there again yet. */
const fresh = ({ url, sql }: Pick<TestDatabase, 'url' | 'sql'>): Pick<TestDatabase, 'rows'> => ({
  rows: (text, values) =>
    onceThere(async () => {
      const client = new pg.Client({ connectionString: url })
      client.on('error', () => undefined)
      try {
        await client.connect()
        return (await client.query(sql(text), values)).rows as never
      } finally {
        await client.end()
      }
    }),
})

/** Every bucket has an owner with a lease, and none has more than its share. */
async function untilShared(database: Pick<TestDatabase, 'url' | 'sql'>): Promise<void> {
  await eventually('the buckets are shared', async () => {
    const rows = await fresh(database).rows<{ owned: number }>(
      `SELECT count(*)::int AS owned FROM "waybill".outbox_buckets
       WHERE leased_until > clock_timestamp() GROUP BY owner ORDER BY 1`,
    )
    return ['20,22,22', '21,21,22'].includes(rows.map(({ owned }) => owned).join())
  })
}

const told = (
  relays: readonly TestRelay[],
  name: 'relay.lease_lost' | 'relay.crash_suspected' | 'event.failed',
) => relays.flatMap((relay) => relay.events(name))

describe('three relays', () => {
  test(
    'of which sessions are terminated at random moments: nothing is lost, nothing comes twice',
    { timeout: 60_000 * repeat },
    async () => {
      const random = createRandom()
      const database = await createTestDatabase()
      const ledger = await createLedger(database)
      const relays = await startRelays(database, ledger)
      const writers = ledger.startWriters({ count: 4 })
      let ended = 0
      for (let round = 0; round < 60 * repeat; round++) {
        await delay(random.between(0, 80))
        const sessions = await readSessions(database)
        const chosen = sessions.filter(() => random.next() < 0.3).map(({ pid }) => pid)
        await database.query('SELECT pg_terminate_backend(pid) FROM unnest($1::int[]) AS pid', [chosen])
        ended += chosen.length
      }
      expect(ended).toBeGreaterThan(60 * repeat)
      await ledger.untilArrivals(50)
      await writers.stop()
      await ledger.untilDelivered()
      await untilShared(database)
      await Promise.all(relays.map((relay) => relay.stop()))
      await expectWhole(ledger, database)
      expect(told(relays, 'relay.lease_lost')).toEqual([])
    },
  )

  test(
    'of a database that is killed at random moments, whole or one of its processes: nothing is lost or comes twice',
    { timeout: 120_000 * repeat },
    async () => {
      const random = createRandom()
      const server = await startTestServer({ settings: { max_wal_size: '2GB' } })
      const database = await createTestDatabase({ server })
      const ledger = await createLedger(database)
      const relays = await startRelays(database, ledger, 30_000)
      const writers = ledger.startWriters({ count: 4 })
      const kills: string[] = []
      for (let round = 0; round < 6 * repeat; round++) {
        await ledger.untilArrivals(random.between(1, 60))
        await delay(random.between(0, 200))
        const how = random.pick(['SIGKILL', 'SIGQUIT', 'a process'] as const)
        kills.push(how)
        if (how === 'a process') {
          const sessions = await readSessions(fresh(database))
          // All others end with it: the server begins anew.
          if (sessions.length > 0) process.kill(random.pick(sessions).pid, 'SIGKILL')
        } else {
          await server.kill(how)
          await delay(random.between(0, 1_000))
          await server.restart()
        }
      }
      await ledger.untilArrivals(50)
      await writers.stop()
      await ledger.untilDelivered()
      await untilShared(database)
      await Promise.all(relays.map((relay) => relay.stop()))
      process.stdout.write(`${kills.join(', ')}\n`)
      await expectWhole(ledger, fresh(database))
      expect(told(relays, 'relay.lease_lost')).toEqual([])
      for (const relay of relays) expect(relay.events('database.down').length).toBeGreaterThan(0)
    },
  )

  test(
    'of a database that is away for longer than the lease: what comes twice is what could not be marked',
    { timeout: 120_000 },
    async () => {
      const awayMs = 40_000 * scale
      const server = await startTestServer({ settings: { max_wal_size: '2GB' } })
      const database = await createTestDatabase({ server })
      const ledger = await createLedger(database)
      const relays = await startRelays(database, ledger, awayMs / 4)
      const writers = ledger.startWriters({ count: 4 })
      await ledger.untilArrivals(100)
      await server.kill('SIGQUIT')
      for (const relay of relays) await relay.until('database.down')
      await delay(awayMs)
      for (const relay of relays) expect(relay.health()).toMatchObject({ live: true, ready: false })
      await server.restart()
      const at = performance.now()
      // All that arrived until now, and has no mark.
      const [unmarked] = await fresh(database).rows<{ n: number }>(
        'SELECT count(*)::int AS n FROM "waybill".outbox_events WHERE processed_at IS NULL',
      )
      await ledger.untilArrivals(50)
      expect(performance.now() - at).toBeLessThan(10_000)
      await writers.stop()
      await ledger.untilDelivered()
      await untilShared(database)
      await eventually('each of them says that it is ready', async () =>
        relays.every((relay) => relay.health().ready),
      )
      await Promise.all(relays.map((relay) => relay.stop()))
      const verdict = await ledger.verdict()
      const { written, duplicates } = verdict
      expect(verdict).toEqual({ ...whole(written), duplicates })
      expect(duplicates).toBeLessThanOrEqual(unmarked!.n)
      const [blamed] = await fresh(database).rows(
        `SELECT count(*)::int AS n FROM "waybill".outbox_events
         WHERE processed_at IS NULL OR attempts > 0 OR crashes > 0 OR dead_at IS NOT NULL`,
      )
      expect(blamed).toEqual({ n: 0 })
      process.stdout.write(`${written} events, ${unmarked!.n} without a mark, ${duplicates} twice\n`)
    },
  )

  test.for(['is there, read-only', 'dies'] as const)(
    'whose primary fails over and %s: every session is with the new one within 10 s, nothing comes twice',
    { timeout: 90_000 },
    async (how) => {
      const cluster = await startCluster()
      const { primary, standby, ledger, url, on } = cluster
      const relays = await startRelays({ url, schema: cluster.schema }, ledger, 30_000)
      const writers = ledger.startWriters()
      await ledger.untilArrivals(100)
      let at: number
      if (how === 'dies') {
        await cluster.crash()
        at = performance.now()
      } else {
        await cluster.makeReadOnly()
        at = await cluster.failOver()
        await eventually('no session stays', async () => (await cluster.sessions(primary)).length === 0)
      }
      await eventually('every session is with the new primary', async () => {
        const there = await cluster.sessions(standby)
        return relaySessions.every((name) => there.filter((other) => other === name).length === count)
      })
      expect(performance.now() - at).toBeLessThan(10_000)
      await ledger.untilArrivals(50)
      await writers.stop()
      await ledger.untilDelivered()
      await Promise.all(relays.map((relay) => relay.stop()))
      await expectWhole(ledger, on(standby))
      expect(told(relays, 'relay.lease_lost')).toEqual([])
      expect(told(relays, 'event.failed')).toEqual([])
    },
  )
})
