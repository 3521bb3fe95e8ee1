import { setTimeout as delay } from 'node:timers/promises'
import pg from 'pg'
import { beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { PostgresServer } from '../../scripts/embedded-postgres.ts'
import { testRelay } from '../relay/harness.ts'
import { type Ledger, createLedger } from '../support/ledger.ts'
import { type TestDatabase, createTestDatabase, startTestServer } from '../support/postgres.ts'
import { expectWhole, ledgerBroker } from './kit.ts'

/** With WAYBILL_TEST_LONG=1 an outage lasts as long as in life; otherwise a quarter, and so does the lease. */
const scale = process.env['WAYBILL_TEST_LONG'] === '1' ? 1 : 0.25

let server: PostgresServer
let database: TestDatabase
let ledger: Ledger
beforeAll(async () => {
  server = await startTestServer({ settings: { max_wal_size: '2GB' } })
})
beforeEach(async () => {
  database = await createTestDatabase({ server })
  ledger = await createLedger(database)
})

/** The test's own connection went with the server. */
async function rows(sql: string): Promise<never> {
  const client = new pg.Client({ connectionString: database.url })
  await client.connect()
  try {
    return (await client.query(database.sql(sql))).rows as never
  } finally {
    await client.end()
  }
}

async function isAway(): Promise<boolean> {
  return rows('SELECT 1').then(
    () => false,
    () => true,
  )
}

describe('a database', () => {
  test('that crashes and comes back, five times: nothing is lost, nothing comes twice, no attempt is counted', async () => {
    const relay = testRelay(database, { destinations: { bus: ledgerBroker(ledger, { takesMs: 2 }) } })
    await relay.start()
    const writers = ledger.startWriters()
    const gaps: number[] = []
    for (let round = 0; round < 5; round++) {
      await ledger.untilArrivals(30)
      const before = server.pid
      await server.kill('SIGQUIT')
      expect(await isAway()).toBe(true)
      await server.restart()
      expect(server.pid).not.toBe(before)
      const at = performance.now()
      await ledger.untilArrivals(10)
      gaps.push(performance.now() - at)
    }
    expect(Math.max(...gaps)).toBeLessThan(8_000)
    await writers.stop()
    await ledger.untilDelivered()
    await relay.stop()
    await expectWhole(ledger, { rows })
    expect(relay.events('relay.lease_lost')).toEqual([])
    expect(relay.events('database.down').length).toBeGreaterThan(0)
  })

  test(
    'that is away for four times the lease: the relay says so once, waits, and goes on with the same buckets',
    { timeout: 120_000 },
    async () => {
      const awayMs = 40_000 * scale
      const relay = testRelay(database, {
        destinations: { bus: ledgerBroker(ledger, { takesMs: 2 }) },
        leaseMs: awayMs / 4,
      })
      await relay.start()
      const writers = ledger.startWriters()
      await ledger.untilArrivals(100)
      await server.kill('SIGQUIT')
      await relay.until('database.down')
      const seen = ledger.arrivedAt.length
      await delay(awayMs)
      expect(await isAway()).toBe(true)
      expect(relay.health()).toMatchObject({ live: true, ready: false })
      // What was in memory went out while the lease lasted, and nothing after that.
      const quietSince = ledger.arrivedAt.at(-1)!
      expect(performance.now() - quietSince).toBeGreaterThan(awayMs / 2)
      expect(ledger.arrivedAt.length).toBeLessThan(seen + 100)
      await server.restart()
      const at = performance.now()
      await ledger.untilArrivals(10)
      expect(performance.now() - at).toBeLessThan(8_000)
      await relay.until('database.up')
      expect(relay.events('database.down')).toHaveLength(1)
      await writers.stop()
      await ledger.untilDelivered()
      expect(relay.health()).toEqual({ live: true, ready: true, reason: null })
      await relay.stop()
      await expectWhole(ledger, { rows })
      expect(relay.events('relay.lease_lost')).toEqual([])
      expect(relay.events('relay.crash_suspected')).toEqual([])
    },
  )
})
