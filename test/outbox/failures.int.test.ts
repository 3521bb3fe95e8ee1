import { beforeAll, expect, test } from 'vitest'
import { pg as pgClient } from '../../src/clients/pg.ts'
import { createOutbox } from '../../src/index.ts'
import { type TestDatabase, createTestDatabase } from '../support/postgres.ts'
import { testSchema } from '../support/target.ts'

let db: TestDatabase
const outbox = createOutbox({ client: pgClient(), schema: testSchema })
const event = { type: 'order.created', aggregate: ['order', 'o-1'] as const, payload: {} }

beforeAll(async () => {
  db = await createTestDatabase()
})

test.each([
  ['an event', event],
  ['a revision', { ...event, revision: 1 }],
])('a schema that was not migrated is named, for %s', async (_, tried) => {
  await db.query('BEGIN')
  const elsewhere = createOutbox({ client: pgClient(), schema: 'Not"Here' })
  await expect(elsewhere.publish(db.client, tried)).rejects.toMatchObject({
    code: 'SCHEMA_MISSING',
    message: expect.stringMatching(
      /^the schema "Not\\"Here" of this database has no Waybill tables, run "waybill migrate" first/,
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

/** An outbox whose client answers, or fails, with this. */
const answering = (query: () => Promise<unknown>) =>
  createOutbox<object>({
    client: { name: 'mine', query: () => query() as Promise<never[]> },
    schema: testSchema,
  })
const failing = (error: unknown) =>
  answering(async () => {
    throw error
  })

test('an error that is neither of the database nor of the connection is passed through as it is', async () => {
  for (const error of [new TypeError('handle.run is not a function'), new Error('no'), 'text', undefined]) {
    await expect(failing(error).publish({}, event)).rejects.toBe(error)
  }
})

test.each([
  ['a socket', Object.assign(new Error('read ECONNRESET'), { code: 'ECONNRESET' })],
  ['pg', new Error('Client has encountered a connection error and is not queryable')],
  ['postgres.js', Object.assign(new Error('write CONNECTION_CLOSED'), { code: 'CONNECTION_CLOSED' })],
  ['an ORM around it', new Error('Failed query', { cause: new Error('Connection terminated unexpectedly') })],
  ['the server', Object.assign(new Error('terminating'), { code: '57P01', severity: 'FATAL' })],
])('a lost session is recognised by the error of %s', async (_, error) => {
  await expect(failing(error).publish({}, event)).rejects.toMatchObject({
    code: 'DATABASE_UNREACHABLE',
    cause: error,
  })
})

test.each([
  ['cause', 'cause'],
  ['original', 'original'],
  ['driverError', 'driverError'],
])("the database's error is found in the %s of an ORM's", async (_, property) => {
  const message = `relation "${testSchema}.outbox_events" does not exist`
  const server = (code: string) => Object.assign(new Error(message), { code, severity: 'ERROR' })
  const wrapped = (code: string) => Object.assign(new Error('Failed query'), { [property]: server(code) })
  await expect(failing(wrapped('42P01')).publish({}, event)).rejects.toMatchObject({ code: 'SCHEMA_MISSING' })
  await expect(failing(wrapped('25P02')).publish({}, event)).rejects.toMatchObject({
    code: 'TRANSACTION_FAILED',
  })
  const other = wrapped('40001')
  await expect(failing(other).publish({}, event)).rejects.toBe(other)
})

test.each([[[]], [[{}]], [[{ answer: true }]]])(
  'an adapter that does not answer with rows is told from a missing transaction: %j',
  async (rows) => {
    for (const tried of [event, { ...event, revision: 1 }]) {
      await expect(answering(() => Promise.resolve(rows)).publish({}, tried)).rejects.toMatchObject({
        code: 'CONFIGURATION_INVALID',
        message: expect.stringMatching(/^the adapter of the client mine did not answer with the rows/),
      })
    }
  },
)

test('a handle that answers in another way than pg is refused', async () => {
  const manager = { query: () => Promise.resolve([{ answer: 'true' }]) }
  await expect(outbox.publish(manager as never, event)).rejects.toMatchObject({
    code: 'NOT_IN_TRANSACTION',
    message: expect.stringContaining('whose query() does not answer { rows }'),
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
