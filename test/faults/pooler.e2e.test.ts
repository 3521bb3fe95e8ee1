import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import pg from 'pg'
import { beforeAll, expect, test } from 'vitest'
import { pg as pgClient } from '../../src/clients/pg.ts'
import { createOutbox } from '../../src/index.ts'
import { createCli, temporaryFolder } from '../cli/cli.ts'
import { atEndOfFile } from '../support/cleanups.ts'
import { type Ledger, createLedger, whole } from '../support/ledger.ts'
import { type Pgbouncer, startPgbouncer } from '../support/pgbouncer.ts'
import { type TestDatabase, createTestDatabase } from '../support/postgres.ts'
import { startCli } from '../support/processes.ts'
import { type Receiver, startReceiver } from '../support/receiver.ts'
import { describeWith } from '../support/services.ts'
import { eventually } from './kit.ts'

/** Fewer than the relay and the writers have connections: they must share. */
const poolSize = 4

/** What a session of the server keeps beyond the transaction that made it. */
interface Leftover {
  pid: number
  /** Settings that neither the server nor the pooler made; the pooler keeps track of some by itself. */
  settings: string[]
  statements: number
  channels: number
  locks: number
  temporary: number
}

const lookAt = `
  SELECT pg_backend_pid() AS pid,
         ARRAY(SELECT name || '=' || setting FROM pg_settings WHERE source = 'session'
               AND name NOT IN ('application_name', 'client_encoding', 'DateStyle', 'TimeZone',
                                'standard_conforming_strings')) AS settings,
         (SELECT count(*)::int FROM pg_prepared_statements) AS statements,
         (SELECT count(*)::int FROM pg_listening_channels()) AS channels,
         (SELECT count(*)::int FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()) AS locks,
         (SELECT count(*)::int FROM pg_class WHERE relpersistence = 't') AS temporary`

describeWith('pgbouncer', 'through PgBouncer in transaction mode', () => {
  let database: TestDatabase
  let pooler: Pgbouncer
  let url: string
  let pooled: { url: string; schema: string }
  let cwd: string
  let receiver: Receiver
  let ledger: Ledger
  let cli: ReturnType<typeof createCli>
  beforeAll(async () => {
    database = await createTestDatabase({ migrated: false })
    pooler = await startPgbouncer(database.url, { default_pool_size: poolSize })
    url = pooler.through(database.url)
    pooled = { url, schema: database.schema }
    cwd = await temporaryFolder()
    receiver = await startReceiver(({ headers, body }) => {
      if (headers['x-waybill-event-type'] !== 'ledger.counted') return 422
      ledger.arrived({ eventId: headers['x-waybill-event-id']!, body })
      return 204
    })
    atEndOfFile(() => receiver.stop())
    const config = { destinations: { hook: { type: 'webhook', url: `${receiver.origin}/` } } }
    await writeFile(join(cwd, 'waybill.config.json'), JSON.stringify(config))
    cli = createCli(cwd, pooled)
  })

  /** The sessions that the pooler has with the server, each held by a transaction while all are looked at. */
  async function sessions(): Promise<Leftover[]> {
    const held = await Promise.all(
      Array.from({ length: poolSize }, async () => {
        const client = new pg.Client({ connectionString: url })
        await client.connect()
        await client.query('BEGIN')
        return client
      }),
    )
    const found = await Promise.all(
      held.map(async (client) => (await client.query<Leftover>(lookAt)).rows[0]!),
    )
    for (const client of held) {
      await client.query('ROLLBACK')
      await client.end()
    }
    expect(new Set(found.map(({ pid }) => pid)).size).toBe(poolSize)
    return found
  }
  const clean = { settings: [], statements: 0, channels: 0, locks: 0, temporary: 0 }

  test('migrate, publish, relay and the commands work, and leave nothing in the sessions of the server', async () => {
    expect(await cli(['migrate'])).toMatchObject({ code: 0 })
    ledger = await createLedger(pooled)

    const relay = startCli(['relay', '--port', '0'], { cwd, database: pooled })
    await relay.line(/"event":"relay.buckets".*"owned":64/)
    const writers = ledger.startWriters({ count: 6 })
    await ledger.untilArrivals(200)
    // The fault is there: more clients than sessions, and whoever asks twice may be answered by two.
    const pools = await pooler.console('SHOW POOLS')
    const pool = pools.find((row) => row['database'] === database.name)!
    expect(pool).toMatchObject({ pool_mode: 'transaction' })
    expect(Number(pool['cl_active']) + Number(pool['cl_waiting'])).toBeGreaterThan(poolSize)

    // Published by code, one event that the receiver refuses for good.
    const outbox = createOutbox({ client: pgClient(), schema: database.schema })
    const client = new pg.Client({ connectionString: url })
    await client.connect()
    await client.query('BEGIN')
    const refused = await outbox.publish(client, {
      type: 'refused',
      aggregate: ['shop', 's-1'],
      payload: { a: 1 },
    })
    await outbox.publish(client, { type: 'refused', aggregate: ['shop', 's-2'], revision: 1, payload: {} })
    await client.query('COMMIT')
    await client.end()

    await eventually('both are dead letters', async () => {
      const { items } = (await cli(['dead', 'list', '--json'])).json()
      return items.length === 2
    })
    await writers.stop()
    await ledger.untilDelivered()
    expect((await cli(['list', '--state', 'published', '--limit', '5', '--json'])).json().items).toHaveLength(
      5,
    )
    // With the sign of life that the relay gives every few seconds.
    const status = await eventually('the status tells that it polls', async () => {
      const { stdout } = await cli(['status'])
      return /woken +by polling/.test(stdout) ? stdout : undefined
    })
    expect(status).toContain('64 of 64 owned')
    receiver.respond = () => 204
    expect((await cli(['dead', 'retry', '--all', '--json'])).json()).toMatchObject({ changed: 2 })
    await eventually(
      'the dead letters are delivered',
      async () =>
        receiver.requests.filter(({ headers }) => headers['x-waybill-event-id'] === refused.id).length >= 2,
    )
    expect((await cli(['prune', '--json'])).json()).toMatchObject({ deleted: 0, complete: true })

    expect(relay.lines.filter((line) => line.includes('"event":"listener.pooled"'))).toHaveLength(1)
    expect(relay.lines.filter((line) => line.includes('database.down'))).toEqual([])
    for (const session of await sessions()) expect(session).toMatchObject(clean)
    const verdict = await ledger.verdict()
    expect(verdict).toEqual(whole(verdict.written))
    relay.signal('SIGTERM')
    expect(await relay.exit).toEqual({ code: 0, signal: null })
    for (const session of await sessions()) expect(session).toMatchObject(clean)
  })

  test('the look at the sessions would see what is left there', async () => {
    const client = new pg.Client({ connectionString: url })
    await client.connect()
    await client.query(
      `SET work_mem = '123kB'; LISTEN somebody; PREPARE one AS SELECT 1; SELECT pg_advisory_lock(1)`,
    )
    await client.end()
    expect(await sessions()).toContainEqual(
      expect.objectContaining({ settings: ['work_mem=123'], statements: 1, channels: 1, locks: 1 }),
    )
  })
})
