import { setTimeout as delay } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Publisher, publishFailed, undeliverable } from '../../src/publishing/publisher.ts'
import { insertEvents, testRelay, upTo } from '../relay/harness.ts'
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
  /** What the sessions do, or did last, whose transaction is older than half a second. */
  old: string[] | null
}

/**
 * A session that is idle has no transaction. PostgreSQL reads notifications for it in one of its own, which looks as
 * old as the session's last statement.
 */
async function sample(): Promise<Sample> {
  const [row] = await database.rows<Sample>(
    `SELECT count(*)::int AS sessions,
            coalesce(max(extract(epoch FROM clock_timestamp() - state_change))
              FILTER (WHERE state LIKE 'idle in transaction%'), 0)::float8 * 1000 AS "idleMs",
            coalesce(max(extract(epoch FROM clock_timestamp() - xact_start))
              FILTER (WHERE state <> 'idle'), 0)::float8 * 1000 AS "openMs",
            array_agg(concat_ws(' ', state, wait_event, query))
              FILTER (WHERE state <> 'idle' AND clock_timestamp() - xact_start > interval '0.5 seconds') AS old
     FROM pg_stat_activity WHERE datname = current_database() AND usename = $1`,
    [role],
  )
  return row!
}

/** Takes so long for each call, whatever comes of it: published, not now, never. */
function slowBroker(takesMs: () => number): Publisher {
  const broker = ledgerBroker(ledger)
  return {
    ...broker,
    capabilities: { ordering: 'batch', deduplication: false },
    async publish(messages, call) {
      await delay(takesMs())
      const own = messages.filter(({ eventType }) => eventType === 'ledger.counted')
      await broker.publish(own, call)
      return messages.map(({ eventType }) => {
        if (eventType === 'nack') return { status: 'retry', error: publishFailed('not now') }
        if (eventType === 'refuse') return { status: 'reject', error: undeliverable('never') }
        return { status: 'published' }
      })
    },
  }
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
    { timeout: 90_000 },
    async () => {
      // Half of the buckets are those of a relay that died: their first events are put on record before they are tried.
      await database.query(
        `UPDATE "waybill".outbox_buckets SET owner = gen_random_uuid(), epoch = 7,
                leased_until = clock_timestamp() - interval '1 second' WHERE bucket < 32`,
      )
      await insertEvents(
        database,
        upTo(40).map((n) => ({ aggregate: `odd-${n}`, type: ['nack', 'refuse'][n % 2]! })),
      )
      let takesMs = 5_000
      const relay = testRelay(
        { url, schema: database.schema },
        { destinations: { bus: slowBroker(() => takesMs) }, maxAttempts: 1_000 },
      )
      await relay.start()
      await relay.until('relay.buckets', ({ owned }) => owned === 64)
      const writers = ledger.startWriters({ count: 2, aggregates: 100, pauseMs: 100 })
      const samples: Sample[] = []
      let arrivals = 0
      for (const end = performance.now() + 17_000; performance.now() < end; await delay(50)) {
        samples.push(await sample())
        arrivals = ledger.arrivedAt.length
      }
      await writers.stop()
      // The publisher was at work all the time, and so was the relay.
      expect(arrivals).toBeGreaterThan(20)
      expect(samples.length).toBeGreaterThan(50)
      // It has marked, put back, buried, and put suspects on record.
      expect(relay.events('event.failed').length).toBeGreaterThan(20)
      expect(relay.events('event.dead')).toHaveLength(20)
      expect(relay.events('relay.crash_suspected')).toHaveLength(32)
      const [marked] = await database.rows<Record<string, number>>(
        `SELECT count(processed_at)::int AS published, count(*) FILTER (WHERE last_attempt_at IS NOT NULL AND dead_at IS NULL)::int AS retrying
         FROM "waybill".outbox_events`,
      )
      expect(marked!['published']).toBeGreaterThan(20)
      expect(marked!['retrying']).toBe(20)
      expect(Math.min(...samples.slice(20).map(({ sessions }) => sessions))).toBeGreaterThanOrEqual(3)
      expect(Math.max(...samples.map(({ idleMs }) => idleMs))).toBeLessThan(1_000)
      const oldest = samples.toSorted((a, b) => b.openMs - a.openMs)[0]!
      expect(oldest.openMs, oldest.old?.join('\n')).toBeLessThan(1_000)
      // While calls are under way nobody who wants the whole table waits for more than a statement.
      const at = performance.now()
      await database.query('ALTER TABLE "waybill".outbox_events ADD COLUMN note text')
      expect(performance.now() - at).toBeLessThan(2_000)
      takesMs = 0
      await ledger.untilDelivered(30_000)
      await relay.stop()
      await database.query(`DELETE FROM "waybill".outbox_events WHERE event_type <> 'ledger.counted'`)
      await expectWhole(ledger, database)
      expect(relay.events('database.down')).toEqual([])
    },
  )
})
