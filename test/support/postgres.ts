import { randomBytes } from 'node:crypto'
import pg from 'pg'
import { inject } from 'vitest'
import { type PostgresOptions, type PostgresServer, startPostgres } from '../../scripts/embedded-postgres.ts'
import { inSchema } from '../../src/database/identifiers.ts'
import { migrate } from '../../src/schema/migrator.ts'
import { atEndOfFile } from './cleanups.ts'

export interface TestDatabaseOptions {
  /** Default: `waybill`. */
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
  /** Another connection, closed by `drop`. */
  connect(options?: pg.ClientConfig): Promise<pg.Client>
  /** Called by itself at the end of the test file. Idempotent; ends every connection to the database. */
  drop(): Promise<void>
}

/** A database of its own for this test file: a copy of the migrated template, made in milliseconds. */
export async function createTestDatabase(options: TestDatabaseOptions = {}): Promise<TestDatabase> {
  const { schema = 'waybill', migrated = true, buckets, server } = options
  const serverUrl = server?.url ?? inject('postgresUrl')
  const copy = migrated && schema === 'waybill' && buckets === undefined && server === undefined
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
  const drop = () => (dropped ??= dropDatabase())
  async function dropDatabase(): Promise<void> {
    await Promise.all(clients.map((client) => client.end().catch(() => undefined)))
    // A server of the test's own takes its databases with it.
    if (server === undefined) await onServer(serverUrl, `DROP DATABASE IF EXISTS ${name} WITH (FORCE)`)
  }
  atEndOfFile(drop)

  if (migrated && !copy) {
    await migrate({ databaseUrl: url.href, schema, ...(buckets === undefined ? {} : { buckets }) })
  }
  const client = await connect()
  const query: TestDatabase['query'] = async (sql, values = []) =>
    (await client.query(inSchema(sql, schema), values)) as never
  return {
    url: url.href,
    name,
    schema,
    client,
    query,
    rows: async (sql, values) => (await query(sql, values)).rows as never,
    connect,
    drop,
  }
}

/** A server of this test file's own, stopped at its end: for tests that restart or kill it. */
export async function startTestServer(options: PostgresOptions = {}): Promise<PostgresServer> {
  const server = await startPostgres(options)
  atEndOfFile(() => server.stop())
  return server
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
