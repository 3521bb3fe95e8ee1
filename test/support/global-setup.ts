import pg from 'pg'
import type { TestProject } from 'vitest/node'
import { startPostgres } from '../../scripts/embedded-postgres.ts'
import { migrate } from '../../src/schema/migrator.ts'
import { testMajor, testSchema } from './target.ts'

declare module 'vitest' {
  export interface ProvidedContext {
    /** Superuser, database `postgres` of the server that the whole run shares. */
    postgresUrl: string
    /** A migrated database (the schema of the run, default buckets) that nobody may connect to: a template. */
    templateDatabase: string
    /** True when the server goes away after the run, with everything in it. */
    serverIsOurs: boolean
  }
}

interface Shared {
  postgresUrl: string
  templateDatabase: string
  stop(): Promise<void>
}

// Each project of the configuration runs this file in a module graph of its own; one server serves them all.
const store = globalThis as typeof globalThis & {
  waybillTestServer?: { users: number; shared: Promise<Shared> }
}

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const entry = (store.waybillTestServer ??= { users: 0, shared: start() })
  entry.users++
  const shared = await entry.shared
  project.provide('postgresUrl', shared.postgresUrl)
  project.provide('templateDatabase', shared.templateDatabase)
  project.provide('serverIsOurs', process.env['WAYBILL_TEST_POSTGRES_URL'] === undefined)
  return async () => {
    if (--entry.users > 0) return
    delete store.waybillTestServer
    await shared.stop()
  }
}

async function start(): Promise<Shared> {
  const given = process.env['WAYBILL_TEST_POSTGRES_URL']
  if (given !== undefined) {
    const drop = (template: string) => run(given, `DROP DATABASE IF EXISTS ${template} WITH (FORCE)`)
    return prepare(given, drop)
  }
  // Nobody waits for the disk: tests kill processes, no machine, and servers that they kill are their own.
  const settings = { fsync: 'off', max_wal_size: '2GB', checkpoint_timeout: '30min' }
  const server = await startPostgres({ major: testMajor, settings })
  // The template goes with it: dropping it costs a checkpoint, which writes what all tests have left in memory.
  return prepare(server.url, () => server.stop())
}

async function prepare(
  postgresUrl: string,
  tidyUp: (templateDatabase: string) => Promise<void>,
): Promise<Shared> {
  const templateDatabase = `waybill_template_${process.pid}`
  try {
    await run(postgresUrl, `CREATE DATABASE ${templateDatabase}`)
    const url = new URL(postgresUrl)
    url.pathname = `/${templateDatabase}`
    await migrate({ databaseUrl: url.href, schema: testSchema })
    // A connection to the template would make every copy fail.
    await run(postgresUrl, `ALTER DATABASE ${templateDatabase} WITH ALLOW_CONNECTIONS false`)
  } catch (error) {
    await tidyUp(templateDatabase)
    throw error
  }
  return { postgresUrl, templateDatabase, stop: () => tidyUp(templateDatabase) }
}

async function run(url: string, sql: string): Promise<void> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    await client.query(sql)
  } finally {
    await client.end()
  }
}
