import { setTimeout as delay } from 'node:timers/promises'
import { beforeEach, expect, test } from 'vitest'
import { type PublishResult, brokerUnavailable } from '../../src/publishing/publisher.ts'
import { insertEvents, numbers, testRelay } from '../relay/harness.ts'
import { recordingPublisher } from '../relay/recording-publisher.ts'
import { type TestDatabase, createTestDatabase } from '../support/postgres.ts'
import { untilWaiting } from './kit.ts'

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
    Array.from({ length: 1_200 }, (_, i) => ({ aggregate: `a-${i}`, payload: { n: 1 } })),
  )
  await relay.start()
  await relay.until('destination.down')
  await delay(1_500)
  const writer = await database.connect()
  await writer.query('BEGIN')
  await writer.query('LOCK TABLE waybill.outbox_events IN ACCESS EXCLUSIVE MODE')
  await writer.query(
    `INSERT INTO waybill.outbox_events (aggregate_type, aggregate_id, event_type, payload)
     SELECT 'order', 'a-' || i, 'order.created', '{"n": 2}' FROM generate_series(100, 400) AS i`,
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
