import { randomUUID } from 'node:crypto'
import type pg from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { pg as pgClient } from '../../src/clients/pg.ts'
import { createConnection } from '../../src/database/connection.ts'
import {
  type Privileges,
  consumerPrivileges,
  relayPrivileges,
  writerPrivileges,
} from '../../src/database/privileges.ts'
import { type WaybillError, createOutbox } from '../../src/index.ts'
import { cleanDedupeMemory } from '../../src/consumer/cleaner.ts'
import { projection } from '../../src/consumer/index.ts'
import { openStore } from '../../src/consumer/open-store.ts'
import {
  discardConsumerDeadLetters,
  listConsumerDeadLetters,
  retryConsumerDeadLetters,
} from '../../src/operations/consumer-dead-letters.ts'
import { withConsumerResults } from '../../src/operations/consumers.ts'
import { createSampler } from '../../src/operations/sampler.ts'
import { readStatus } from '../../src/operations/status.ts'
import { createTelemetry } from '../../src/telemetry/events.ts'
import { discardDeadLetters, retryDeadLetters } from '../../src/operations/dead-letters.ts'
import { claimTask } from '../../src/operations/task-lease.ts'
import { takeSample } from '../../src/operations/sample.ts'
import { prune } from '../../src/operations/prune.ts'
import { type Publisher, createRelay, rejectedBy } from '../../src/relay/index.ts'
import { migrate } from '../../src/schema/index.ts'
import { note, testConsumer } from '../consumer/harness.ts'
import { type TestDatabase, createTestDatabase } from '../support/postgres.ts'
import { testSchema } from '../support/target.ts'
import { grants, grantsFor } from './grants.ts'

let db: TestDatabase
const made: string[] = []
const outbox = createOutbox({ client: pgClient(), schema: testSchema })
const event = { type: 'order.created', aggregate: ['order', 'o-1'] as const, payload: {} }

/** Roles belong to the whole server, which other tests share: each gets the name of this database in front. */
const roleName = (name: string) => `${db.name}_${name}`
async function createRole(name: string): Promise<string> {
  const role = roleName(name)
  await db.client.query(`CREATE ROLE ${role} LOGIN`)
  made.push(role)
  return role
}
const urlFor = (role: string) => {
  const url = new URL(db.url)
  url.username = role
  url.password = ''
  return url.href
}
const connectAs = (name: string) => db.connect({ connectionString: urlFor(roleName(name)) })
beforeAll(async () => {
  db = await createTestDatabase()
  for (const name of ['writer', 'relay', 'consumer', 'viewer']) {
    const role = await createRole(name)
    for (const grant of grantsFor(db, name, role)) await db.client.query(grant)
  }
})
afterAll(async () => {
  for (const role of made) await db.client.query(`DROP OWNED BY ${role} CASCADE; DROP ROLE ${role}`)
})

async function publish(client: pg.Client, changes: object = {}): Promise<unknown> {
  await client.query('BEGIN')
  try {
    return await outbox.publish(client, { ...event, ...changes })
  } finally {
    await client.query('COMMIT')
  }
}
const refusal = (work: Promise<unknown>): Promise<WaybillError> =>
  work.then(
    () => Promise.reject(new Error('it was allowed')),
    (error: WaybillError) => error,
  )
/** What the message says that an owner may run. */
const grantIn = (error: WaybillError) => /GRANT .*? TO "(?:[^"]|"")*"/.exec(error.message)![0]

describe('the guide', () => {
  test.each<[name: string, privileges: Privileges]>([
    ['writer', writerPrivileges],
    ['relay', relayPrivileges],
    ['consumer', consumerPrivileges],
  ])('grants the %s what messages about a missing privilege name', (name, privileges) => {
    const granted = grants
      .map((line) =>
        /^GRANT ([A-Z, ]+) ON (?:SEQUENCE )?(?:waybill\.)?(\w+(?: waybill)?) TO waybill_(\w+);$/.exec(line),
      )
      .filter((match) => match?.[3] === name)
      .map((match) => [match![2] === 'SCHEMA waybill' ? 'schema' : match![2], match![1]])
    expect(Object.fromEntries(granted)).toEqual(privileges)
  })
})

describe('a writer', () => {
  let writer: pg.Client
  beforeAll(async () => {
    writer = await connectAs('writer')
  })

  test('publishes events, batches and revisions, and finds conflicts', async () => {
    await publish(writer)
    await publish(writer, { revision: 1 })
    await expect(publish(writer, { revision: 1 })).rejects.toMatchObject({ code: 'REVISION_CONFLICT' })
    await writer.query('BEGIN')
    await outbox.publish(writer, [event, { ...event, revision: 2 }], { serialise: true })
    expect(await outbox.publish(writer, { ...event, revision: 2 })).toMatchObject({ written: false })
    await writer.query('COMMIT')
  })

  test('finds a conflict with a revision that a plain INSERT wrote', async () => {
    await db.query(`INSERT INTO "waybill".outbox_events (aggregate_type, aggregate_id, event_type, payload, revision)
      VALUES ('order', 'plain', 't', '{}', 1)`)
    await expect(publish(writer, { aggregate: ['order', 'plain'], revision: 1 })).rejects.toMatchObject({
      code: 'REVISION_CONFLICT',
    })
  })

  test('inserts by itself, and wakes a relay that it cannot see', async () => {
    const insert =
      db.sql(`INSERT INTO "waybill".outbox_events (aggregate_type, aggregate_id, event_type, payload)
      VALUES ('order', 'o-2', 'order.created', '{}')`)
    await db.query(`INSERT INTO "waybill".outbox_relays (relay_id, host, process_id, version, expires_at, asleep_until)
      VALUES (gen_random_uuid(), 'h', 1, '0', now() + interval '1 minute', now() + interval '1 minute')`)
    const listener = await db.connect()
    const [row] = await db.rows(`SELECT 'waybill_' || '"waybill".outbox_events'::regclass::oid AS channel`)
    await listener.query(`LISTEN ${row!.channel}`)
    const notified = new Promise((resolve) => listener.once('notification', resolve))
    await writer.query(insert)
    expect(await notified).toMatchObject({ channel: row!.channel })
    await expect(writer.query(`${insert} RETURNING id`)).rejects.toMatchObject({ code: '42501' })
    await db.query('TRUNCATE "waybill".outbox_relays')
  })

  test.each([
    'SELECT FROM "waybill".outbox_events',
    'UPDATE "waybill".outbox_events SET attempts = 0',
    'DELETE FROM "waybill".outbox_events',
    'SELECT FROM "waybill".outbox_relays',
    'SELECT FROM "waybill".outbox_dead_letters',
    'DELETE FROM "waybill".publication_heads',
  ])('may not %s', async (sql) => {
    await expect(writer.query(db.sql(sql))).rejects.toMatchObject({ code: '42501' })
  })
})

describe('a missing grant', () => {
  let role: string
  let client: pg.Client
  beforeAll(async () => {
    role = await createRole('newcomer')
    client = await db.connect({ connectionString: urlFor(role) })
  })

  test('is named one after the other until the writer has what it needs', async () => {
    const missing: [changes: object, lacks: string][] = [
      [{}, 'USAGE on the schema "waybill"'],
      [{}, 'INSERT on the table "waybill"."outbox_events"'],
      [{ revision: 9 }, 'SELECT, INSERT, UPDATE on the table "waybill"."publication_heads"'],
    ]
    for (const [changes, lacks] of missing) {
      const error = await refusal(publish(client, changes))
      expect(error).toMatchObject({ code: 'PERMISSION_DENIED', details: { role, schema: testSchema } })
      expect(error.message).toContain(`role "${role}" lacks ${db.sql(lacks)}: its owner may run GRANT `)
      await db.client.query(grantIn(error))
      await publish(client, changes).catch(() => undefined)
    }
    expect(await publish(client, { revision: 10 })).toMatchObject({ written: true })
  })

  test('of a function is named as well', async () => {
    const name = 'outbox_publish_intents(jsonb)'
    await db.query(`REVOKE EXECUTE ON FUNCTION "waybill".${name} FROM PUBLIC`)
    const error = await refusal(publish(client, { revision: 20 }))
    expect(error.message).toContain(
      db.sql('lacks EXECUTE on the function "waybill"."outbox_publish_intents"'),
    )
    await db.client.query(grantIn(error))
    await publish(client, { revision: 22 })
    await db.query(`GRANT EXECUTE ON FUNCTION "waybill".${name} TO PUBLIC`)
  })

  test('leaves out nobody who used SET ROLE', async () => {
    const poor = await createRole('poor')
    await db.client.query(`SET ROLE ${poor}`)
    const error = await refusal(publish(db.client))
    await db.client.query('RESET ROLE')
    expect(error.message).toContain('(or to the role that SET ROLE chose)')
  })

  test('for the relay and for migrate is named the same way', async () => {
    const stranger = await createRole('stranger')
    const connection = createConnection({ databaseUrl: urlFor(stranger), schema: testSchema })
    const reading = await refusal(connection.query(db.sql('SELECT FROM "waybill".outbox_events')))
    const lacks = `role "${stranger}" lacks USAGE on the schema "waybill": its owner may run GRANT USAGE ON SCHEMA`
    expect(reading.message.startsWith(db.sql(lacks)), reading.message).toBe(true)
    await db.client.query(grantIn(reading))
    const next = await refusal(connection.query(db.sql('SELECT FROM "waybill".outbox_events')))
    expect(next.message).toContain(
      db.sql(`GRANT SELECT, UPDATE, DELETE ON "waybill"."outbox_events" TO "${stranger}"`),
    )
    await db.client.query(grantIn(next))
    await connection.query(db.sql('SELECT FROM "waybill".outbox_events'))
    const deleting = await refusal(connection.query(db.sql('DROP TABLE "waybill".outbox_events')))
    expect(deleting).toMatchObject({
      code: 'PERMISSION_DENIED',
      message: expect.stringContaining(
        '(must be owner of table outbox_events): run this as the role that owns the tables',
      ),
    })
    await connection.close()

    const creating = await refusal(migrate({ databaseUrl: urlFor(stranger), schema: 'mine' }))
    expect(creating.message).toContain(
      `lacks CREATE on the database "${db.name}": its owner may run GRANT CREATE`,
    )
    await db.client.query(grantIn(creating))
    expect(await migrate({ databaseUrl: urlFor(stranger), schema: 'mine' })).toMatchObject({ applied: true })
  })
})

test('an owner needs CREATE on the database, and migrates up and down', async () => {
  const owner = await createRole('owner')
  for (const grant of grantsFor(db, 'owner', owner)) await db.client.query(grant)
  const options = { databaseUrl: urlFor(owner), schema: 'owned' }
  expect(await migrate(options)).toMatchObject({ applied: true })
  expect(await migrate({ ...options, wakeup: 'poll' })).toMatchObject({ applied: true })
  expect(await migrate({ ...options, to: 0 })).toMatchObject({ applied: true })
})

test('a relay publishes, marks, buries, retries, discards and prunes', async () => {
  await db.query('TRUNCATE "waybill".outbox_events, "waybill".publication_heads')
  await publish(db.client, { aggregate: ['order', 'a'], revision: 1 })
  await publish(db.client, { aggregate: ['order', 'b'], type: 'refused' })
  const databaseUrl = urlFor(roleName('relay'))
  const publisher: Publisher = {
    name: 'test',
    capabilities: { ordering: 'per-call', deduplication: false },
    publish: (messages) =>
      Promise.resolve(
        messages.map(({ eventType }) =>
          eventType === 'refused'
            ? { status: 'reject', error: rejectedBy('no', 'refused for good') }
            : { status: 'published' },
        ),
      ),
    close: () => Promise.resolve(),
  }
  const drain = () =>
    createRelay({ databaseUrl, schema: testSchema, destinations: { test: publisher } }).drain()
  expect(await drain()).toMatchObject({ published: 1, dead: 1 })

  const connection = createConnection({ databaseUrl, schema: testSchema })
  expect(await retryDeadLetters(connection, testSchema, { all: true })).toMatchObject({ changed: 1 })
  expect(await drain()).toMatchObject({ dead: 1 })
  expect(await discardDeadLetters(connection, testSchema, { all: true, reason: 'test' })).toMatchObject({
    changed: 1,
  })
  const task = {
    db: connection,
    schema: testSchema,
    name: 'prune',
    owner: randomUUID(),
    leaseMs: 1000,
  } as const
  expect(await claimTask(task, 0)).toBe(true)
  expect(await takeSample(connection, testSchema)).toMatchObject({ counts: { pending: 0, dead: 0 } })
  expect(await prune(connection, testSchema, { processedDays: 0 })).toMatchObject({ deleted: 1 })
  await connection.close()
})

test('a relay shows consumers and puts their dead letters back; without these grants they are unknown to it', async () => {
  await db.query(`INSERT INTO "waybill".consumers (consumer) VALUES ('seen')`)
  await db.query(`INSERT INTO "waybill".consumer_messages (consumer, event_id, state, delivery, body, origin)
    VALUES ('seen', 'a', 'dead', '{}', '', 'x'), ('seen', 'b', 'dead', '{}', '', 'x')`)
  const relay = createConnection({ databaseUrl: urlFor(roleName('relay')), schema: testSchema })
  expect(await readStatus(relay, testSchema)).toMatchObject({ consumers: [{ name: 'seen', deadLetters: 2 }] })
  expect(await withConsumerResults(relay, testSchema, [{ id: 'a' }])).toEqual([{ id: 'a', consumers: [] }])
  expect((await listConsumerDeadLetters(relay, testSchema)).items).toHaveLength(2)
  const action = { consumer: 'seen', reason: 'test' }
  expect(await retryConsumerDeadLetters(relay, testSchema, { ...action, ids: ['a'] })).toMatchObject({
    changed: 1,
  })
  expect(await discardConsumerDeadLetters(relay, testSchema, action)).toMatchObject({ changed: 1 })
  await relay.close()
  await db.query(`TRUNCATE "waybill".consumers, "waybill".consumer_messages`)

  const role = await createRole('narrow')
  for (const grant of grantsFor(db, 'relay', role)) {
    if (!/consumer|processed/.test(grant)) await db.client.query(grant)
  }
  const narrow = createConnection({ databaseUrl: urlFor(role), schema: testSchema })
  expect(await readStatus(narrow, testSchema)).toMatchObject({ consumers: null, counts: { pending: 0 } })
  expect(await withConsumerResults(narrow, testSchema, [{ id: 'a' }])).toEqual([{ id: 'a', consumers: null }])
  const telemetry = createTelemetry()
  const sampler = createSampler({ db: narrow, schema: testSchema, telemetry, relayId: randomUUID() })
  const ended = new Promise<string>((resolve) => {
    telemetry.onAny((name) => resolve(name))
  })
  sampler.start()
  expect(await ended).toBe('sample.taken')
  await sampler.stop()
  expect(sampler.latest()).toMatchObject({ consumers: null, sample: { counts: { pending: 0 } } })
  await narrow.close()
})

describe('a consumer', () => {
  const as = (name: string) => ({ url: urlFor(roleName(name)), schema: testSchema })

  test('handles, fails, parks, remembers and tidies up, and cannot read the outbox', async () => {
    const notes = projection({ name: 'role notes', mode: 'contiguous', schema: testSchema })
    const consumer = await testConsumer(as('consumer'), {
      ...{ name: 'role', maxAttempts: 2 },
      handlers: {
        '*': async ({ event, tx, effects }) => {
          await effects.once(event.id, () => undefined)
          if (event.payload === 'bad') throw new Error('no')
          await notes.apply(tx, event, () => undefined)
          if (event.payload === 'last') await notes.forget(tx, ['note', event.aggregateId])
        },
      },
    })
    const [two, one] = [2, 1].map((n) =>
      note({ aggregateId: 'r', revision: String(n), body: n === 2 ? '"last"' : '"first"' }),
    )
    await consumer.deliver(two!)
    await consumer.deliver(one!, { redelivered: true })
    await consumer.deliver({ ...one!, messageId: 'again', replay: 1 })
    await consumer.deliver(note({ body: '"bad"' }), { redelivered: true })
    await consumer.deliver(note({ body: '{' }))
    expect(consumer.events('database.down')).toEqual([])
    expect(consumer.events('consumer.parked')).toHaveLength(1)
    expect(consumer.events('consumer.dead')).toMatchObject([{ error: 'no' }])
    expect(consumer.events('consumer.invalid')).toHaveLength(1)
    const connection = createConnection({ databaseUrl: as('consumer').url, schema: testSchema })
    expect((await listConsumerDeadLetters(connection, testSchema)).items).toHaveLength(2)
    const action = { consumer: 'role', reason: 'test' }
    expect(await retryConsumerDeadLetters(connection, testSchema, action)).toMatchObject({ changed: 2 })
    await consumer.until('consumer.dead', () => consumer.events('consumer.dead').length === 2)
    expect((await discardConsumerDeadLetters(connection, testSchema, action)).changed).toBeGreaterThan(0)
    const store = openStore(as('consumer').url, { schema: testSchema, concurrency: 1, isolation: undefined })
    await db.query(
      `UPDATE "waybill".consumers SET resumed_at = now() - interval '2 days';
       UPDATE "waybill".processed_events SET processed_at = now() - interval '31 days'`,
    )
    const { signal } = new AbortController()
    const clean = { store, schema: testSchema, consumer: 'role', dedupeDays: 30, signal }
    expect(await cleanDedupeMemory(clean)).toBeGreaterThan(0)
    await store.close()
    await consumer.stop()
    await expect(connection.query(db.sql('SELECT FROM "waybill".outbox_events'))).rejects.toMatchObject({
      code: 'PERMISSION_DENIED',
    })
    await connection.close()
  })

  test('that lacks a privilege is told at the start which one', async () => {
    const role = await createRole('needy')
    for (const grant of grantsFor(db, 'consumer', role)) {
      if (!grant.includes('consumer_instances')) await db.client.query(grant)
    }
    const start = testConsumer(as('needy'), { handlers: { '*': () => undefined } })
    const error = await refusal(start)
    expect(error).toMatchObject({ code: 'PERMISSION_DENIED' })
    expect(error.message).toMatch(/lacks SELECT, INSERT, UPDATE, DELETE on the table .*"consumer_instances"/)
    await db.client.query(grantIn(error))
    await testConsumer(as('needy'), { handlers: { '*': () => undefined } })
  })
})

test('a viewer reads every table and view, and changes none', async () => {
  const viewer = await connectAs('viewer')
  const tables = await db.rows(
    `SELECT relname AS name FROM pg_class WHERE relnamespace = '"waybill"'::regnamespace AND relkind IN ('r', 'v')`,
  )
  expect(tables.length).toBeGreaterThan(10)
  for (const { name } of tables) {
    await viewer.query(db.sql(`SELECT FROM "waybill".${name}`))
    await expect(viewer.query(db.sql(`DELETE FROM "waybill".${name}`))).rejects.toMatchObject({
      code: '42501',
    })
  }
})
