import { beforeAll, expect, test } from 'vitest'
import { pg as pgClient } from '../../src/clients/pg.ts'
import { createOutbox } from '../../src/index.ts'
import { type TestDatabase, createTestDatabase } from '../support/postgres.ts'

let db: TestDatabase
const outbox = createOutbox({ client: pgClient() })
const event = { type: 'order.created', aggregate: ['order', 'o-1'] as const, payload: {} }

beforeAll(async () => {
  db = await createTestDatabase()
})

test.each([
  ['an event', event],
  ['a revision', { ...event, revision: 1 }],
])('a schema that was not migrated is named, for %s', async (_, tried) => {
  await db.query('BEGIN')
  const elsewhere = createOutbox({ client: pgClient(), schema: 'My"Schema' })
  await expect(elsewhere.publish(db.client, tried)).rejects.toMatchObject({
    code: 'SCHEMA_MISSING',
    message: expect.stringMatching(
      /^the schema "My\\"Schema" of this database has no Waybill tables, run "waybill migrate" first/,
    ),
  })
  await db.query('ROLLBACK')
})

test('an error of the database itself keeps its SQLSTATE', async () => {
  await db.query('BEGIN READ ONLY')
  await expect(outbox.publish(db.client, event)).rejects.toMatchObject({ code: '25006', severity: 'ERROR' })
  await db.query('ROLLBACK')
  const id = '0197f6a0-2f43-7cc0-8000-5b1f0c0f7d11'
  await db.query('BEGIN')
  await expect(
    outbox.publish(db.client, [
      { ...event, id },
      { ...event, id },
    ]),
  ).rejects.toMatchObject({ code: '23505', constraint: 'outbox_events_pkey' })
  await db.query('ROLLBACK')
})

test("a mistake inside a client's adapter is passed through as it is", async () => {
  const broken = createOutbox<object>({
    client: { name: 'mine', query: (_, sql) => Promise.resolve(sql as unknown as never[]) },
  })
  const failing = createOutbox<object>({
    client: { name: 'mine', query: () => Promise.reject(new TypeError('handle.run is not a function')) },
  })
  await expect(failing.publish({}, event)).rejects.toThrow(TypeError)
  // Rows without the answer count as "not written".
  await expect(broken.publish({}, event)).rejects.toMatchObject({
    code: 'NOT_IN_TRANSACTION',
    message: expect.stringMatching(/^publish needs a mine handle/),
  })
})

const ok = pgClient()
test.each<[options: object, message: RegExp]>([
  [{}, /^expected client to be the adapter of a client library, for example pg\(\)/],
  [{ client: pgClient }, /^expected client to be the adapter/],
  [
    { client: ok, schemas: 'x' },
    /^unknown option "schemas" of createOutbox, expected one of client, schema, events/,
  ],
  [{ client: ok, schema: 'x'.repeat(64) }, /^expected schema to be a PostgreSQL name of 1 to 63 bytes/],
  [{ client: ok, schema: 1 }, /^expected schema to be a text$/],
  [{ client: ok, serialise: 'yes' }, /^expected serialise to be true or false$/],
  [
    { client: ok, events: { 'order.created': {} } },
    /^expected events\["order\.created"\] to be a Standard Schema/,
  ],
  [{ client: ok, events: { 'order.created': undefined } }, /^expected events\["order\.created"\]/],
])('wrong options are refused when the outbox is made: %o', (options, message) => {
  expect(() => createOutbox(options as never)).toThrow(
    expect.objectContaining({ code: 'CONFIGURATION_INVALID', message: expect.stringMatching(message) }),
  )
})

test('wrong options of a call are refused before any SQL', async () => {
  const never = createOutbox<object>({
    client: { name: 'never', query: () => Promise.reject(new Error('asked')) },
  })
  await expect(never.publish({}, event, { serialize: true } as never)).rejects.toMatchObject({
    code: 'CONFIGURATION_INVALID',
    message: 'unknown option "serialize" of publish, expected one of serialise',
  })
  await expect(never.publish({}, event, { serialise: 1 } as never)).rejects.toMatchObject({
    code: 'CONFIGURATION_INVALID',
  })
})
