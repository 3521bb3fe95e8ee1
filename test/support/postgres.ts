import { randomBytes } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import pg from 'pg'
import { expect, inject } from 'vitest'
import { type PostgresOptions, type PostgresServer, startPostgres } from '../../scripts/embedded-postgres.ts'
import { failureOf } from '../../src/database/failures.ts'
import { inSchema } from '../../src/database/identifiers.ts'
import { migrate } from '../../src/schema/migrator.ts'
import { atEndOfFile } from './cleanups.ts'
import { testMajor, testSchema } from './target.ts'

export interface TestDatabaseOptions {
  /** Default: that of the run, `waybill` when it has none. */
  schema?: string
  /** False: an empty database. Default: true. */
  migrated?: boolean
  /** Default: 64. */
  buckets?: number
  /** Another server than the one that the run shares, for tests that stop or kill it. */
  server?: PostgresServer
}

export interface TestDatabase {
  /** Superuser, this database. */
  readonly url: string
  readonly name: string
  readonly schema: string
  /** The test's own connection. */
  readonly client: pg.Client
  /** Runs SQL that is written for the schema `"waybill".`; int8 and numeric arrive as text. */
  query<Row = Record<string, any>>(
    sql: string,
    values?: unknown[],
  ): Promise<{ rows: Row[]; rowCount: number | null }>
  /** As `query`, only the rows. */
  rows<Row = Record<string, any>>(sql: string, values?: unknown[]): Promise<Row[]>
  /** SQL that is written for the schema `"waybill".`, as other connections need it. */
  sql(text: string): string
  /** Another connection, closed at the end of the test file. */
  connect(options?: pg.ClientConfig): Promise<pg.Client>
  /** Ends every connection to the database and removes it. Not needed: the end of the test file sees to it. */
  drop(): Promise<void>
}

/**
 * As a condition on `pg_stat_activity`: the session waits for what somebody in its database holds. Not for the lock
 * (of type `object`) that each commit with a NOTIFY in it takes for a moment, one in the whole server.
 */
export const waitsForLock = `wait_event_type = 'Lock' AND wait_event <> 'object'`

/** Waits until one session of the database waits for a lock that another of its sessions holds. */
export const untilOneWaits = (database: Pick<TestDatabase, 'rows'>): Promise<void> =>
  expect
    .poll(
      () =>
        database.rows(
          `SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND ${waitsForLock}`,
        ),
      { timeout: 20_000 },
    )
    .toHaveLength(1)

/** A database of its own for this test file: a copy of the migrated template, made in milliseconds. */
export async function createTestDatabase(options: TestDatabaseOptions = {}): Promise<TestDatabase> {
  const { schema = testSchema, migrated = true, buckets, server } = options
  const serverUrl = server?.url ?? inject('postgresUrl')
  const copy = migrated && schema === testSchema && buckets === undefined && server === undefined
  const name = `test_${randomBytes(6).toString('hex')}`
  const template = copy ? inject('templateDatabase') : 'template0'
  await onServer(serverUrl, `CREATE DATABASE ${name} TEMPLATE ${template}`)

  const url = new URL(serverUrl)
  url.pathname = `/${name}`
  const clients: pg.Client[] = []
  async function connect(config: pg.ClientConfig = {}): Promise<pg.Client> {
    const client = new pg.Client({ connectionString: url.href, ...config })
    // A test may kill sessions and servers; what the test waits for tells it so.
    client.on('error', () => undefined)
    await client.connect()
    clients.push(client)
    return client
  }

  let dropped: Promise<void> | undefined
  const drop = () => (dropped ??= dropDatabase(serverUrl, name, clients))
  atEndOfFile(async () => {
    if (dropped !== undefined) return
    // A server of the test's own may be down by now, and takes its databases with it.
    if (server !== undefined) return endAll(clients)
    await expectNoDefault(url.href, schema)
    // Dropping costs a checkpoint: a server that goes away after the run only has to be free of the database's
    // sessions and slots.
    return inject('serverIsOurs') ? release(serverUrl, name, clients) : drop()
  })

  if (migrated && !copy) {
    await migrate({ databaseUrl: url.href, schema, ...(buckets === undefined ? {} : { buckets }) })
  }
  const client = await connect()
  const sql = (text: string) => inSchema(text, schema)
  const query: TestDatabase['query'] = async (text, values = []) =>
    (await client.query(sql(text), values)) as never
  return {
    url: url.href,
    name,
    schema,
    client,
    query,
    rows: async (text, values) => (await query(text, values)).rows as never,
    sql,
    connect,
    drop,
  }
}

/** The answer of `look`, which is asked again while the server is away, up to 20 s: for tests that kill it. */
export async function onceThere<T>(look: () => Promise<T>): Promise<T> {
  const end = performance.now() + 20_000
  for (;;) {
    try {
      return await look()
    } catch (error) {
      if (failureOf(error) !== 'connection' || performance.now() > end) throw error
      await delay(50)
    }
  }
}

/** A server of this test file's own, stopped at its end: for tests that restart or kill it. */
export async function startTestServer(options: PostgresOptions = {}): Promise<PostgresServer> {
  const server = await startPostgres({ major: testMajor, ...options })
  atEndOfFile(() => server.stop())
  return server
}

/** Whatever forgot to say where it works has worked in the default schema, and tested nothing in that of the run. */
async function expectNoDefault(url: string, schema: string): Promise<void> {
  if (schema === 'waybill') return
  const message = `a test worked in the schema "waybill" of a database whose schema is another: pass database.schema`
  await onServer(
    url,
    `DO $$ BEGIN
       IF to_regnamespace('waybill') IS NOT NULL THEN RAISE EXCEPTION '${message}'; END IF;
     END $$`,
  )
}

async function dropDatabase(serverUrl: string, name: string, clients: readonly pg.Client[]): Promise<void> {
  await release(serverUrl, name, clients)
  await onServer(serverUrl, `DROP DATABASE IF EXISTS ${name} WITH (FORCE)`)
}

async function endAll(clients: readonly pg.Client[]): Promise<void> {
  await Promise.all(clients.map((client) => client.end().catch(() => undefined)))
}

async function release(serverUrl: string, name: string, clients: readonly pg.Client[]): Promise<void> {
  await endAll(clients)
  await onServer(
    serverUrl,
    `SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = '${name}';
     SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = '${name}'`,
  )
}

async function onServer(url: string, sql: string): Promise<void> {
  const client = new pg.Client({ connectionString: url })
  client.on('error', () => undefined)
  await client.connect()
  try {
    await client.query(sql)
  } finally {
    await client.end()
  }
}
