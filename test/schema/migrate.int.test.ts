import { inspect } from 'node:util'
import { beforeAll, describe, expect, test } from 'vitest'
import { pg as pgClient } from '../../src/clients/pg.ts'
import { inSchema, quoteIdentifier } from '../../src/database/identifiers.ts'
import { createOutbox } from '../../src/index.ts'
import { latestVersion, migrate, printMigrations } from '../../src/schema/index.ts'
import { checkSchemaVersion } from '../../src/schema/migrator.ts'
import { type TestDatabase, createTestDatabase } from '../support/postgres.ts'
import { testSchema } from '../support/target.ts'
import { describeCatalog } from './catalog.ts'

let db: TestDatabase
const newest = latestVersion()

beforeAll(async () => {
  db = await createTestDatabase({ migrated: false })
})

/** A schema of its own for each test, migrated or not. */
let made = 0
const newSchema = () => `${testSchema}${++made}`
const up = (schema: string, options: object = {}) => migrate({ databaseUrl: db.url, schema, ...options })
const run = (sql: string, schema: string) => db.client.query(inSchema(sql, schema))

describe('migrate', () => {
  test('brings an empty database to the newest version, once', async () => {
    const schema = newSchema()
    expect(await up(schema)).toEqual({
      from: 0,
      to: newest,
      steps: [{ version: 1, name: 'initial', direction: 'up' }],
      applied: true,
    })
    await checkSchemaVersion(db.client, schema)
    expect(await up(schema)).toEqual({ from: newest, to: newest, steps: [], applied: false })
  })

  test('goes back and forth, and nothing is left or lacking', async () => {
    const schema = newSchema()
    await up(schema)
    const before = await describeCatalog(db.client, schema)
    expect(before.length).toBeGreaterThan(100)
    expect(await up(schema, { to: 0 })).toMatchObject({ from: newest, to: 0, applied: true })
    const empty = await describeCatalog(db.client, schema)
    expect(empty.filter((line) => !line.includes('schema_version'))).toEqual([])
    await up(schema)
    expect(await describeCatalog(db.client, schema)).toEqual(before)
  })

  test('says on a dry run what it would do and does nothing', async () => {
    const schema = newSchema()
    expect(await up(schema, { dryRun: true })).toMatchObject({ from: 0, to: newest, applied: false })
    expect(await describeCatalog(db.client, schema)).toEqual([])
  })

  test('does all or nothing', async () => {
    const schema = newSchema()
    await run('CREATE SCHEMA "waybill"; CREATE TABLE "waybill".decisions (id int)', schema)
    await expect(up(schema)).rejects.toMatchObject({ code: '42P07' })
    expect(await describeCatalog(db.client, schema)).toHaveLength(2)
  })

  test('is safe when eight start at once, whatever isolation is the default', async () => {
    const schema = newSchema()
    await db.client.query(`ALTER DATABASE ${db.name} SET default_transaction_isolation = 'serializable'`)
    await db.client.query(`ALTER DATABASE ${db.name} SET default_transaction_read_only = on`)
    const reports = await Promise.all(Array.from({ length: 8 }, () => up(schema)))
    await db.client.query(`ALTER DATABASE ${db.name} RESET ALL`)
    expect(reports.filter(({ applied }) => applied)).toHaveLength(1)
    expect(reports.map(({ to }) => to)).toEqual(Array.from({ length: 8 }, () => newest))
    await checkSchemaVersion(db.client, schema)
  })

  test.each([[-1], [newest + 1], [1.5], [Number.NaN]])('refuses to go to version %s', async (to) => {
    await expect(up(newSchema(), { to })).rejects.toMatchObject({
      code: 'CONFIGURATION_INVALID',
      message: `expected --to to be a version from 0 to ${newest}, got ${to}`,
    })
  })

  test('refuses a schema that is newer than the program', async () => {
    const schema = newSchema()
    await up(schema)
    await run('UPDATE "waybill".schema_version SET version = 999', schema)
    const newer = {
      code: 'SCHEMA_NEWER',
      message: `the schema ${JSON.stringify(schema)} is at version 999, newer than the ${newest} this program knows: upgrade waybill`,
    }
    await expect(up(schema)).rejects.toMatchObject(newer)
    await expect(up(schema, { to: 0 })).rejects.toMatchObject(newer)
    await expect(checkSchemaVersion(db.client, schema)).rejects.toMatchObject(newer)
  })

  test('a schema that was never migrated, or was taken back, is missing', async () => {
    const schema = newSchema()
    const missing = {
      code: 'SCHEMA_MISSING',
      message: `the schema ${JSON.stringify(schema)} is not migrated, run "waybill migrate"`,
    }
    await expect(checkSchemaVersion(db.client, schema)).rejects.toMatchObject(missing)
    await up(schema)
    await up(schema, { to: 0 })
    await expect(checkSchemaVersion(db.client, schema)).rejects.toMatchObject(missing)
  })

  test('a database that cannot be reached is named without its password', async () => {
    const databaseUrl = 'postgres://me:hunter2@127.0.0.1:1/shop'
    const failure = await migrate({ databaseUrl }).catch((error: unknown) => error as Error)
    expect(failure).toMatchObject({
      code: 'DATABASE_UNREACHABLE',
      message: expect.stringMatching(/^cannot use PostgreSQL at 127\.0\.0\.1:1\/shop: /),
    })
    expect(inspect(failure)).not.toContain('hunter2')
  })
})

describe('printed SQL', () => {
  // A tool such as psql sends the file as it is, without parameters.
  test('run as it is gives the same as migrate, with the version', async () => {
    const [printed, migrated] = [newSchema(), newSchema()]
    await db.client.query(printMigrations({ schema: printed }))
    await up(migrated)
    const renamed = (lines: string[], schema: string) =>
      lines.map((line) => line.replaceAll(quoteIdentifier(schema), 'S').replaceAll(schema, 'S'))
    expect(renamed(await describeCatalog(db.client, printed), printed)).toEqual(
      renamed(await describeCatalog(db.client, migrated), migrated),
    )
    await checkSchemaVersion(db.client, printed)
    expect(await up(printed)).toMatchObject({ applied: false })
  })

  test('knows the number of buckets and the wake-up', async () => {
    const schema = newSchema()
    await db.client.query(printMigrations({ schema, buckets: 7, wakeup: 'poll' }))
    expect((await run('SELECT count(*)::int AS n FROM "waybill".outbox_buckets', schema)).rows).toEqual([
      { n: 7 },
    ])
    expect(await up(schema, { wakeup: 'poll' })).toMatchObject({ applied: false })
  })

  test('of the default schema is what stands in the files', () => {
    expect(printMigrations()).toContain('CREATE TABLE "waybill".outbox_events (')
    expect(printMigrations()).not.toMatch(/undefined|NaN/)
  })
})

describe('the name of the schema', () => {
  const names = [
    'My"Schema',
    'with space',
    'a$b',
    '$waybill$',
    '$waybill$ $waybill1$',
    "O'Brien",
    'схема-😀',
    'ü'.repeat(31) + 'x',
    'my"waybill".waybill',
    '64 /* buckets */',
    '%s %1$I',
    'select',
    'UPPER',
    '-- x\ny',
    '/* x',
    'back\\slash',
    'public',
  ]
  test.each(names)('may be %j: everything works in it', async (schema) => {
    await up(schema)
    await checkSchemaVersion(db.client, schema)
    const outbox = createOutbox({ client: pgClient(), schema })
    const event = { type: 't', aggregate: ['a', '1'] as const, payload: {} }
    await db.client.query('BEGIN')
    await outbox.publish(db.client, event)
    await outbox.publish(db.client, { ...event, revision: 1 })
    await outbox.publish(db.client, { ...event, revision: 1 })
    await expect(outbox.publish(db.client, { ...event, revision: 0 })).rejects.toMatchObject({
      code: 'REVISION_CONFLICT',
    })
    await db.client.query('COMMIT')
    const { rows } = await run('SELECT count(*)::int AS n FROM "waybill".outbox_events', schema)
    expect(rows).toEqual([{ n: 2 }])
    await up(schema, { wakeup: 'poll' })
    await up(schema, { to: 0 })
    const left = await describeCatalog(db.client, schema)
    expect(left.filter((line) => !line.includes('schema_version'))).toEqual([])
    const printed = printMigrations({ schema })
    await run('DROP TABLE "waybill".schema_version', schema)
    await db.client.query(printed)
    await checkSchemaVersion(db.client, schema)
  })

  test.each([[''], ['x'.repeat(64)], ['ü'.repeat(32)], ['a\u0000b'], ['\uD83D'], ['pg_mine']])(
    'is refused: %j',
    async (schema) => {
      const refused = {
        code: 'CONFIGURATION_INVALID',
        message: expect.stringMatching(/^expected schema to be/),
      }
      await expect(up(schema)).rejects.toMatchObject(refused)
      expect(() => printMigrations({ schema })).toThrow(expect.objectContaining(refused))
    },
  )
})

describe('the number of buckets', () => {
  test.each([[1], [128], [1024]])('may be %s', async (buckets) => {
    const schema = newSchema()
    await up(schema, { buckets })
    await run(
      `INSERT INTO "waybill".outbox_events (aggregate_type, aggregate_id, event_type, payload)
       SELECT 'a', n::text, 't', '{}' FROM generate_series(1, 20000) AS n`,
      schema,
    )
    const { rows } = await run(
      `SELECT (SELECT count(*)::int FROM "waybill".outbox_buckets) AS made, count(DISTINCT b)::int AS used,
              min(b)::int AS lowest, max(b)::int AS highest
              FROM "waybill".outbox_events, "waybill".outbox_bucket(aggregate_type, aggregate_id) AS b`,
      schema,
    )
    expect(rows).toEqual([{ made: buckets, used: buckets, lowest: 0, highest: buckets - 1 }])
  })

  test.each([[0], [1025], [1.5], [Number.NaN], ['64; DROP TABLE x']])('is refused: %s', async (buckets) => {
    await expect(up(newSchema(), { buckets })).rejects.toMatchObject({
      code: 'CONFIGURATION_INVALID',
      message: `expected buckets to be an integer from 1 to 1024, got ${buckets}`,
    })
  })

  test('cannot be changed afterwards', async () => {
    const schema = newSchema()
    await up(schema, { buckets: 8 })
    await up(schema)
    await up(schema, { buckets: 8 })
    await expect(up(schema, { buckets: 16 })).rejects.toMatchObject({
      code: 'CONFIGURATION_INVALID',
      message: `the schema ${JSON.stringify(schema)} was made with 8 buckets, which cannot be changed to 16: set buckets to 8`,
    })
  })
})
