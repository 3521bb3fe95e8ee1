import { setTimeout as delay } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { testRelay } from '../relay/harness.ts'
import { grantsFor } from '../schema/grants.ts'
import { type Ledger, createLedger } from '../support/ledger.ts'
import { type TestDatabase, createTestDatabase } from '../support/postgres.ts'
import { expectWhole, ledgerBroker } from './kit.ts'

let database: TestDatabase
let ledger: Ledger
let role: string
let url: string
beforeAll(async () => {
  database = await createTestDatabase()
  ledger = await createLedger(database)
  role = `${database.name}_relay`
  await database.client.query(`CREATE ROLE ${role} LOGIN`)
  for (const grant of grantsFor(database, 'relay', role)) await database.client.query(grant)
  await database.client.query(`ALTER ROLE ${role} SET idle_in_transaction_session_timeout = '1s'`)
  await database.client.query(`ALTER ROLE ${role} SET statement_timeout = '2s'`)
  const address = new URL(database.url)
  address.username = role
  address.password = ''
  url = address.href
})
afterAll(async () => {
  await database.client.query(`DROP OWNED BY ${role}; DROP ROLE ${role}`)
})

interface Sample {
  /** Sessions of the relay. */
  sessions: number
  /** Milliseconds that a transaction of theirs has been idle, 0 without one. */
  idleMs: number
  /** Age of their oldest transaction in milliseconds, 0 without one. */
  openMs: number
}

async function sample(): Promise<Sample> {
  const [row] = await database.rows<Sample>(
    `SELECT count(*)::int AS sessions,
            coalesce(max(extract(epoch FROM clock_timestamp() - state_change))
              FILTER (WHERE state LIKE 'idle in transaction%'), 0)::float8 * 1000 AS "idleMs",
            coalesce(max(extract(epoch FROM clock_timestamp() - xact_start)), 0)::float8 * 1000 AS "openMs"
     FROM pg_stat_activity WHERE datname = current_database() AND usename = $1`,
    [role],
  )
  return row!
}

describe('a role with idle_in_transaction_session_timeout = 1s and statement_timeout = 2s', () => {
  test('has these limits in force', async () => {
    const client = await database.connect({ connectionString: url })
    await expect(client.query('SELECT pg_sleep(10)')).rejects.toMatchObject({ code: '57014' })
    await client.query('BEGIN')
    const ended = new Promise((resolve) => client.once('error', resolve))
    expect(await ended).toMatchObject({ code: '25P03' })
  })

  test(
    'and a publisher that takes 5 s for each call: no transaction waits for it, nothing is lost',
    { timeout: 60_000 },
    async () => {
      const relay = testRelay(
        { url, schema: database.schema },
        { destinations: { bus: ledgerBroker(ledger, { takesMs: 5_000, ordering: 'batch' }) } },
      )
      await relay.start()
      await relay.until('relay.buckets', ({ owned }) => owned === 64)
      const writers = ledger.startWriters({ count: 2, aggregates: 100, pauseMs: 100 })
      const samples: Sample[] = []
      let arrivals = 0
      for (const end = performance.now() + 8_000; performance.now() < end; await delay(50)) {
        samples.push(await sample())
        arrivals = ledger.arrivedAt.length
      }
      await writers.stop()
      // The publisher was at work all the time, and so was the relay.
      expect(arrivals).toBeGreaterThan(20)
      expect(samples.length).toBeGreaterThan(50)
      expect(Math.min(...samples.slice(20).map(({ sessions }) => sessions))).toBeGreaterThanOrEqual(3)
      expect(Math.max(...samples.map(({ idleMs }) => idleMs))).toBeLessThan(1_000)
      expect(Math.max(...samples.map(({ openMs }) => openMs))).toBeLessThan(1_000)
      // While calls are under way nobody who wants the whole table waits for more than a statement.
      const at = performance.now()
      await database.query('ALTER TABLE "waybill".outbox_events ADD COLUMN note text')
      expect(performance.now() - at).toBeLessThan(2_000)
      await ledger.untilDelivered(30_000)
      await relay.stop()
      await expectWhole(ledger, database)
      expect(relay.events('database.down')).toEqual([])
    },
  )
})
