import { existsSync } from 'node:fs'
import pg from 'pg'
import { describe, expect, inject, it } from 'vitest'
import { isAlive } from '../../scripts/embedded-postgres/processes.ts'
import { createTestDatabase, startTestServer } from '../support/postgres.ts'
import { testMajor, testSchema } from '../support/target.ts'

describe('a test database', () => {
  it('is migrated and empty, and apart from every other', async () => {
    const [a, b] = await Promise.all([createTestDatabase(), createTestDatabase()])
    await a.query(
      `INSERT INTO "waybill".outbox_events (aggregate_type, aggregate_id, event_type, payload) VALUES ('a', '1', 'a.b', '{}')`,
    )
    expect(await a.rows('SELECT aggregate_id FROM "waybill".outbox_events')).toEqual([{ aggregate_id: '1' }])
    expect(await b.rows('SELECT aggregate_id FROM "waybill".outbox_events')).toEqual([])
  })

  it('is in the schema of the run, and on its major', async () => {
    const database = await createTestDatabase()
    const schemas = await database.rows(
      `SELECT nspname AS name FROM pg_namespace WHERE nspname NOT IN ('public', 'information_schema') AND nspname !~ '^pg_'`,
    )
    expect(schemas).toEqual([{ name: testSchema }])
    const own = await createTestDatabase({ server: await startTestServer() })
    for (const { rows } of inject('serverIsOurs') ? [database, own] : [own]) {
      expect(await rows('SHOW server_version')).toEqual([
        { server_version: expect.stringMatching(new RegExp(`^${testMajor}\\.`)) },
      ])
    }
  })

  it('may have another schema, or none', async () => {
    const odd = await createTestDatabase({ schema: 'Another"Schema', buckets: 8 })
    expect(await odd.rows('SELECT count(*) FROM "waybill".outbox_events')).toEqual([{ count: '0' }])
    const bare = await createTestDatabase({ migrated: false })
    await expect(bare.query('SELECT FROM "waybill".outbox_events')).rejects.toMatchObject({ code: '42P01' })
  })
})

describe('a server of the test’s own', () => {
  it('keeps committed rows through a kill, comes back on the same port, drops a database in use and leaves nothing behind', async () => {
    const server = await startTestServer({ settings: { log_statement: 'none' } })
    const database = await createTestDatabase({ server, migrated: false })
    await database.query('CREATE TABLE kept AS SELECT 1 AS n')
    const first = server.pid
    await server.kill('SIGKILL')
    expect(isAlive(first)).toBe(false)
    await server.restart()
    expect(server.pid).not.toBe(first)
    const again = await database.connect()
    expect((await again.query('SELECT n FROM kept')).rows).toEqual([{ n: 1 }])
    const settings = await again.query(
      `SELECT name, setting FROM pg_settings WHERE name IN ('fsync', 'wal_level', 'track_commit_timestamp', 'listen_addresses') ORDER BY 1`,
    )
    expect(settings.rows.map(({ setting }) => setting as string)).toEqual([
      'on',
      '127.0.0.1',
      'on',
      'logical',
    ])
    await database.drop()
    const late = new pg.Client({ connectionString: database.url })
    await expect(late.connect()).rejects.toMatchObject({ code: '3D000' })
    const last = server.pid
    await server.stop()
    expect(isAlive(last)).toBe(false)
    expect(existsSync(server.dataDirectory)).toBe(false)
  })
})
