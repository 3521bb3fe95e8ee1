import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { type Connection, createConnection } from '../../src/database/connection.ts'
import { retryConsumerDeadLetters } from '../../src/operations/consumer-dead-letters.ts'
import { listConsumers, withConsumerResults } from '../../src/operations/consumers.ts'
import { type ConsumersSample, takeConsumersSample } from '../../src/operations/consumers-sample.ts'
import { listEvents } from '../../src/operations/list-events.ts'
import { type Sampler, createSampler } from '../../src/operations/sampler.ts'
import { readStatus } from '../../src/operations/status.ts'
import { createTelemetry } from '../../src/telemetry/events.ts'
import { note, testConsumer } from '../consumer/harness.ts'
import { type TestDatabase, createTestDatabase } from '../support/postgres.ts'
import { testSchema } from '../support/target.ts'
import { type Planted, dead, discarded, plant, published } from './plant.ts'

let database: TestDatabase
let db: Connection

beforeAll(async () => {
  database = await createTestDatabase()
  db = createConnection({ databaseUrl: database.url, schema: testSchema })
})
afterAll(() => db.close())
beforeEach(async () => {
  await database.query(
    `TRUNCATE "waybill".outbox_events, "waybill".processed_events, "waybill".consumer_messages,
       "waybill".consumers, "waybill".consumer_instances RESTART IDENTITY`,
  )
  await database.query(
    'UPDATE "waybill".outbox_tasks SET owner = NULL, leased_until = NULL, finished_at = NULL, result = NULL',
  )
})

const plantConsumer = (name: string, handlers = ['order.created']) =>
  database.query('INSERT INTO "waybill".consumers (consumer, handlers) VALUES ($1, $2)', [name, handlers])

const plantResult = (consumer: string, id: string, result = 'applied', at = 'now()') =>
  database.query(
    `INSERT INTO "waybill".processed_events (consumer, event_id, result, processed_at) VALUES ($1, $2, $3, ${at})`,
    [consumer, id, result],
  )

/** Handed over so many minutes ago; long before the newest transactions that may still be open. */
const handedOver = (minutes: number, changes: Planted = {}): Planted => ({
  ...published,
  createdAt: "now() - interval '1 day'",
  processedAt: `now() - interval '${minutes} minutes'`,
  ...changes,
})

async function lagOf(name: string, before?: ConsumersSample): Promise<number | null> {
  const { consumers } = await takeConsumersSample(db, testSchema, before?.marks)
  return consumers.find((consumer) => consumer.name === name)!.lagSeconds
}

describe('the lag of a consumer', () => {
  it('is the time since the oldest event without a result was handed over', async () => {
    await plantConsumer('billing')
    const [first] = await plant(database, handedOver(60), handedOver(10), handedOver(5))
    await plantResult('billing', first!.id)
    const lag = (await lagOf('billing'))!
    expect(lag).toBeGreaterThanOrEqual(600)
    expect(lag).toBeLessThan(660)
  })

  it('is 0 when every event that it handles has a result, whatever the result', async () => {
    await plantConsumer('billing')
    const rows = await plant(database, handedOver(9), handedOver(8), handedOver(7), handedOver(6))
    for (const [n, result] of ['applied', 'stale', 'rejected', 'parked'].entries())
      await plantResult('billing', rows[n]!.id, result)
    expect(await lagOf('billing')).toBe(0)
  })

  it('does not count what was not handed over, nor what it does not handle', async () => {
    await plantConsumer('billing')
    const [first, , , other] = await plant(
      database,
      handedOver(60),
      { ...dead, createdAt: "now() - interval '1 day'" },
      { ...discarded, createdAt: "now() - interval '1 day'" },
      handedOver(30, { type: 'order.paid' }),
      { createdAt: "now() - interval '1 day'" },
    )
    await plantResult('billing', first!.id)
    expect(await takeConsumersSample(db, testSchema)).toMatchObject({
      consumers: [{ lagSeconds: 0 }],
      // What is to be handed over has to be looked at again.
      marks: { billing: other!.position },
    })
  })

  it.each([
    ['it takes whatever type comes', ['order.created', '*'], true],
    ['nothing is known of what it handles', [], true],
    ['none of its events is from this outbox', ['order.created'], false],
  ])('is unknown when %s', async (_, handlers, ofThisOutbox) => {
    await plantConsumer('billing', handlers)
    const [first] = await plant(database, handedOver(60), handedOver(10))
    await plantResult('billing', ofThisOutbox ? first!.id : randomUUID())
    await plantResult('billing', 'no-uuid')
    expect(await lagOf('billing')).toBeNull()
  })

  it('is found from the mark of the sample before, also behind newer results', async () => {
    await plantConsumer('billing')
    const rows = await plant(database, handedOver(60), handedOver(50), handedOver(40))
    await plantResult('billing', rows[0]!.id)
    const before = await takeConsumersSample(db, testSchema)
    expect(before.marks).toEqual({ billing: rows[0]!.position })
    // The aggregate of the second one is stuck, a hundred others go on.
    await plantResult('billing', rows[2]!.id)
    for (let n = 0; n < 100; n++) {
      const [row] = await plant(database, handedOver(1))
      await plantResult('billing', row!.id)
    }
    expect(Math.floor((await lagOf('billing', before))! / 60)).toBe(50)
    await plantResult('billing', rows[1]!.id)
    const after = await takeConsumersSample(db, testSchema, before.marks)
    expect(after).toMatchObject({ consumers: [{ lagSeconds: 0 }], marks: { billing: '103' } })
  })

  it('leaves its mark before what may still become visible in between', async () => {
    await plantConsumer('billing')
    const rows = await plant(
      database,
      handedOver(9),
      { createdAt: "now() - interval '1 day'" },
      handedOver(8),
      handedOver(7, { createdAt: 'now()' }),
    )
    for (const { id } of [rows[0]!, rows[2]!, rows[3]!]) await plantResult('billing', id)
    const before = await takeConsumersSample(db, testSchema)
    expect(before).toMatchObject({ consumers: [{ lagSeconds: 0 }], marks: { billing: rows[0]!.position } })
    await database.query(
      'UPDATE "waybill".outbox_events SET processed_at = now() - interval \'1 minute\' WHERE id = $1',
      [rows[1]!.id],
    )
    expect(await lagOf('billing', before)).toBeGreaterThanOrEqual(60)
    await plantResult('billing', rows[1]!.id)
    const after = await takeConsumersSample(db, testSchema, before.marks)
    expect(after.marks).toEqual({ billing: rows[2]!.position })
  })

  it('is found behind thousands of events of others', async () => {
    await plantConsumer('billing')
    const [first] = await plant(database, handedOver(60))
    await plantResult('billing', first!.id)
    await database.query(
      `INSERT INTO "waybill".outbox_events (aggregate_type, aggregate_id, event_type, payload, created_at, processed_at)
       SELECT 'x', n::text, 'other', '{}', now() - interval '1 day', now() FROM generate_series(1, 5000) AS n`,
    )
    await plant(database, handedOver(3))
    expect(Math.floor((await lagOf('billing'))! / 60)).toBe(3)
  })
})

it('counts results of the last hour, dead letters and parked events of each consumer apart', async () => {
  await plantConsumer('a')
  await plantConsumer('b')
  for (const [consumer, result, at] of [
    ['a', 'applied', 'now()'],
    ['a', 'applied', "now() - interval '59 minutes'"],
    ['a', 'applied', "now() - interval '61 minutes'"],
    ['a', 'stale', 'now()'],
    ['b', 'rejected', 'now()'],
  ] as const)
    await plantResult(consumer, randomUUID(), result, at)
  for (const [consumer, state] of [
    ['b', 'dead'],
    ['b', 'dead'],
    ['b', 'retry'],
    ['b', 'failing'],
    ['a', 'parked'],
  ])
    await database.query(
      `INSERT INTO "waybill".consumer_messages (consumer, event_id, state, projection, aggregate_type, aggregate_id, revision, delivery, body)
       VALUES ($1, gen_random_uuid()::text, $2, 'p', 'x', '1', 1, '{}', '')`,
      [consumer, state],
    )
  const { consumers } = await takeConsumersSample(db, testSchema)
  const none = { applied: 0, stale: 0, rejected: 0, parked: 0, overSeconds: 3600 }
  expect(consumers).toEqual([
    { name: 'a', results: { ...none, applied: 2, stale: 1 }, deadLetters: 0, parked: 1, lagSeconds: null },
    { name: 'b', results: { ...none, rejected: 1 }, deadLetters: 2, parked: 0, lagSeconds: null },
  ])
})

it('says over which time the newest ten thousand results came, when there are more in the hour', async () => {
  await plantConsumer('busy')
  await database.query(
    `INSERT INTO "waybill".processed_events (consumer, event_id, result, processed_at)
     SELECT 'busy', n::text, 'applied', now() - n * interval '0.1 seconds' FROM generate_series(1, 12000) AS n`,
  )
  const [busy] = (await takeConsumersSample(db, testSchema)).consumers
  expect(busy!.results.applied).toBe(10_000)
  expect(busy!.results.overSeconds).toBeGreaterThanOrEqual(1_000)
  expect(busy!.results.overSeconds).toBeLessThan(1_060)
})

describe('consumers that run', () => {
  it('are listed with their processes and what they handle, and with the results of each event', async () => {
    const [good, bad, failing, waiting] = await plant(
      database,
      handedOver(4, { aggregate: ['note', 'a'], type: 'note.published' }),
      handedOver(3, { aggregate: ['note', 'b'], type: 'note.published' }),
      handedOver(2, { aggregate: ['note', 'c'], type: 'note.published' }),
      handedOver(1, { aggregate: ['note', 'd'], type: 'note.published' }),
    )
    const consumer = await testConsumer(database, {
      ...{ name: 'public-list', maxAttempts: 2, retryBaseMs: 60_000, retryMaxMs: 60_000 },
      handlers: {
        'note.published': ({ event }) => {
          if (event.aggregateId !== 'a') throw new Error('no')
        },
      },
    })
    await consumer.deliver(note({ eventId: good!.id, aggregateId: 'a' }))
    const message = note({ eventId: failing!.id, aggregateId: 'c' })
    void consumer.deliver(message)
    await consumer.until('consumer.failed')
    await database.query(
      `INSERT INTO "waybill".processed_events (consumer, event_id, result, error)
       VALUES ('public-list', $1, 'rejected', 'no')`,
      [bad!.id],
    )

    // Rejected, and now tried again for a replay: the result says more.
    await database.query(
      `INSERT INTO "waybill".consumer_messages (consumer, event_id, state, attempts)
       VALUES ('public-list', $1, 'failing', 7)`,
      [bad!.id],
    )
    // A process that died without a word.
    await database.query(
      `INSERT INTO "waybill".consumer_instances (consumer, instance_id, host, process_id, version, expires_at)
       VALUES ('public-list', gen_random_uuid(), 'gone', 1, '0', now() - interval '1 second')`,
    )

    const { items } = await listEvents(db, testSchema)
    const shown = await withConsumerResults(db, testSchema, items)
    expect(shown.map(({ id, consumers }) => [id, consumers])).toEqual([
      [good!.id, [expect.objectContaining({ consumer: 'public-list', result: 'applied', attempts: 1 })]],
      [bad!.id, [expect.objectContaining({ result: 'rejected', error: 'no' })]],
      [failing!.id, [expect.objectContaining({ result: 'failing', attempts: 1, error: 'no' })]],
      [waiting!.id, []],
    ])

    const { consumers } = await readStatus(db, testSchema)
    expect(consumers).toMatchObject([
      {
        name: 'public-list',
        handlers: ['note.published'],
        instances: [{ id: consumer.id, processId: process.pid, subscription: null }],
        results: { applied: 1, rejected: 1 },
      },
    ])
    const { seenAt, startedAt } = consumers![0]!.instances[0]!
    expect(Math.abs(Date.parse(seenAt) - Date.parse(startedAt))).toBeLessThan(30_000)
    expect(Math.floor(consumers![0]!.lagSeconds! / 60)).toBe(2)

    await consumer.stop({ graceMs: 0 })
    expect((await listConsumers(db, testSchema)).consumers).toMatchObject([
      { name: 'public-list', handlers: ['note.published'], instances: [] },
    ])

    await testConsumer(database, {
      name: 'public-list',
      handlers: { 'note.published': () => undefined, 'note.deleted': () => undefined },
    })
    expect((await listConsumers(db, testSchema)).consumers).toMatchObject([
      { handlers: ['note.deleted', 'note.published'] },
    ])
  })
})

it('a relay samples them for all, and goes on from the mark of the one before', async () => {
  await plantConsumer('billing')
  const [first, second] = await plant(database, handedOver(60), handedOver(10))
  await plantResult('billing', first!.id)
  const telemetry = createTelemetry()
  const relay = () => createSampler({ db, schema: testSchema, telemetry, relayId: randomUUID() })
  const oneSample = async (sampler: Sampler) => {
    const taken = new Promise((resolve) => telemetry.on('sample.taken', resolve))
    sampler.start()
    await taken
    await sampler.stop()
  }
  await database.query(
    `INSERT INTO "waybill".outbox_relays (relay_id, host, process_id, version, expires_at, info)
     VALUES (gen_random_uuid(), 'box', 42, '0.1.0', now() + interval '1 hour', '{}')`,
  )
  const sampler = relay()
  await oneSample(sampler)
  expect(sampler.latest()!.consumers).toMatchObject([{ name: 'billing', lagSeconds: expect.any(Number) }])
  expect((await readStatus(db, testSchema)).consumers).toMatchObject([
    { name: 'billing', lagSeconds: sampler.latest()!.consumers![0]!.lagSeconds },
  ])
  await plantConsumer('newcomer')
  expect((await readStatus(db, testSchema)).consumers).toMatchObject([
    { name: 'billing' },
    { name: 'newcomer', results: null, deadLetters: null, lagSeconds: null },
  ])
  // What the last relay left is not what is true after it.
  await database.query('UPDATE "waybill".outbox_relays SET expires_at = now()')
  expect((await listConsumers(db, testSchema)).consumers).toMatchObject([
    { name: 'billing' },
    { name: 'newcomer', deadLetters: 0 },
  ])
  // No result is left from which it would begin anew.
  await plantResult('billing', second!.id)
  await database.query('DELETE FROM "waybill".processed_events WHERE event_id = $1', [first!.id])
  await database.query('DELETE FROM "waybill".outbox_events WHERE id = $1', [first!.id])
  await database.query('UPDATE "waybill".outbox_tasks SET finished_at = finished_at - interval \'1 hour\'')
  const next = relay()
  await oneSample(next)
  expect(next.latest()).toMatchObject({
    consumers: [{ name: 'billing', lagSeconds: 0 }, { name: 'newcomer' }],
    consumerMarks: { billing: second!.position },
  })
})

describe('putting dead letters of a consumer back', () => {
  it('stops when its time is over, but not before it has changed some: the next call gets further', async () => {
    await database.query(
      `INSERT INTO "waybill".consumer_messages (consumer, event_id, state, delivery, body, origin)
       SELECT 'billing', n::text, 'dead', '{}', '', 'test' FROM generate_series(1, 600) AS n`,
    )
    const retry = (limit: { timeLimitMs?: number }) =>
      retryConsumerDeadLetters(db, testSchema, { consumer: 'billing', ...limit })
    expect(await retry({ timeLimitMs: 0 })).toEqual({
      ...{ changed: 500, complete: false },
      ...{ overtaken: [], notDead: [] },
    })
    expect(await retry({})).toMatchObject({ changed: 100, complete: true })
  })
})
