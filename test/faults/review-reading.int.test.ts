import { setTimeout as delay } from 'node:timers/promises'
import { beforeEach, describe, expect, test } from 'vitest'
import { createConnection } from '../../src/database/connection.ts'
import { retryDeadLetters } from '../../src/operations/dead-letters.ts'
import {
  type Message,
  type PublishResult,
  brokerUnavailable,
  rejectedBy,
} from '../../src/publishing/publisher.ts'
import { insertEvents, numbers, readEvents, testRelay } from '../relay/harness.ts'
import { recordingPublisher } from '../relay/recording-publisher.ts'
import { atEndOfFile } from '../support/cleanups.ts'
import { type TestDatabase, createTestDatabase } from '../support/postgres.ts'
import { eventually, untilWaiting } from './kit.ts'

let database: TestDatabase
beforeEach(async () => {
  database = await createTestDatabase()
})

const published: PublishResult = { status: 'published' }

test('a read that began before a bucket was set back to its start does not bring a later event first', async () => {
  let up = false
  const publisher = recordingPublisher({
    behave: () => (up ? published : { status: 'retry', error: brokerUnavailable('refused') }),
  })
  const relay = testRelay(database, {
    destinations: { far: publisher, near: recordingPublisher() },
    routes: () => ({ to: 'far' }),
    batchSize: 100,
  })
  // More than memory holds, so that most of them are left in the table while the destination is away.
  await insertEvents(
    database,
    Array.from({ length: 1_200 }, (_, i) => ({
      aggregate: `a-${i}`,
      payload: { n: 1 },
    })),
  )
  await relay.start()
  await relay.until('destination.down')
  await delay(1_500)
  const writer = await database.connect()
  await writer.query('BEGIN')
  await writer.query(database.sql('LOCK TABLE "waybill".outbox_events IN ACCESS EXCLUSIVE MODE'))
  await writer.query(
    database.sql(`INSERT INTO "waybill".outbox_events (aggregate_type, aggregate_id, event_type, payload)
     SELECT 'order', 'a-' || i, 'order.created', '{"n": 2}' FROM generate_series(100, 400) AS i`),
  )
  await untilWaiting(database, 'waybill read')
  up = true
  await relay.until('destination.up')
  await writer.query('COMMIT')
  await publisher.untilDelivered(1_501)
  const wrong = Array.from({ length: 301 }, (_, i) => `a-${i + 100}`).filter(
    (id) => numbers(publisher.bodies(id)).join() !== '1,2',
  )
  expect(wrong).toEqual([])
})

describe('what dead letters hold back, read while it changes', () => {
  const n = (message: Message) => (JSON.parse(message.body) as { n: number }).n

  /** One bucket; reading what is held stops at the dead letter of "gate" as long as the test says so. */
  async function withGate() {
    database = await createTestDatabase({ buckets: 1 })
    const rejected = new Set(['gate', 'a', 'b'])
    let decide!: (result: PublishResult) => void
    const decision = new Promise<PublishResult>((resolve) => (decide = resolve))
    const publisher = recordingPublisher({
      behave: (message) => {
        if (message.aggregateId === 'c' && n(message) === 1) return decision
        return rejected.has(message.aggregateId) && n(message) === 1
          ? {
              status: 'reject',
              error: rejectedBy(`422 for ${message.aggregateId}`, 'answered 422'),
            }
          : published
      },
    })
    await insertEvents(
      database,
      ['gate', 'a', 'b'].flatMap((aggregate) => [1, 2].map((n) => ({ aggregate, payload: { n } }))),
    )
    const relay = testRelay(database, {
      destinations: { bus: publisher },
      afterDeadLetter: 'hold',
    })
    await relay.start()
    await relay.until('event.dead', (_, all) => all.length === 3)
    await database.query(
      `CREATE OR REPLACE FUNCTION "waybill".outbox_bucket(aggregate_type text, aggregate_id text) RETURNS smallint
       LANGUAGE plpgsql IMMUTABLE STRICT AS $$
       BEGIN
         IF aggregate_id = 'gate' AND current_setting('application_name') = 'waybill read' THEN
           PERFORM pg_advisory_xact_lock_shared(1);
         END IF;
         RETURN 0;
       END $$`,
    )
    const db = createConnection({
      databaseUrl: database.url,
      schema: database.schema,
    })
    atEndOfFile(() => db.close())
    const retry = async (aggregateId: string) => {
      rejected.delete(aggregateId)
      const [row] = (await readEvents(database)).filter((event) => event.aggregate_id === aggregateId)
      await retryDeadLetters(db, database.schema, { ids: [row!.id] })
    }
    const holder = await database.connect()
    return {
      publisher,
      relay,
      retry,
      decide,
      close: () => holder.query('SELECT pg_advisory_lock(1)'),
      open: () => holder.query('SELECT pg_advisory_unlock(1)'),
    }
  }

  test('a retry that comes while it is read is not forgotten', async () => {
    const { publisher, retry, close, open } = await withGate()
    await close()
    await retry('b')
    await untilWaiting(database, 'waybill read')
    await retry('a')
    await delay(700)
    await open()
    await eventually('both are out', () => Promise.resolve(publisher.bodies('b').length === 2))
    await eventually('a is out', () => Promise.resolve(publisher.bodies('a').length === 2), 5_000)
    expect(numbers(publisher.bodies('a'))).toEqual([1, 2])
  })

  test('a dead letter that comes while it is read holds its aggregate', async () => {
    const { publisher, relay, retry, close, open, decide } = await withGate()
    await insertEvents(
      database,
      [1, 2].map((n) => ({ aggregate: 'c', payload: { n } })),
    )
    await eventually('c is under way', () =>
      Promise.resolve(publisher.calls.flat().some((message) => message.aggregateId === 'c')),
    )
    await close()
    await retry('b')
    await untilWaiting(database, 'waybill read')
    decide({
      status: 'reject',
      error: rejectedBy('422 for c', 'answered 422'),
    })
    await relay.until('event.dead', (_, all) => all.length === 4)
    await open()
    await eventually('b is out', () => Promise.resolve(publisher.bodies('b').length === 2))
    await delay(500)
    expect(publisher.bodies('c')).toEqual([])
  })
})
