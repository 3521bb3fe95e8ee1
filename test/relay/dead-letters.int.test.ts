import { beforeEach, describe, expect, test } from 'vitest'
import { createConnection } from '../../src/database/connection.ts'
import { discardDeadLetters, retryDeadLetters } from '../../src/operations/dead-letters.ts'
import { type Message, type PublishResult, rejectedBy } from '../../src/publishing/publisher.ts'
import { type TestDatabase, createTestDatabase } from '../support/postgres.ts'
import { atEndOfFile } from '../support/cleanups.ts'
import { insertEvents, numbers, readEvents, testRelay } from './harness.ts'
import { recordingPublisher } from './recording-publisher.ts'

let database: TestDatabase
beforeEach(async () => {
  database = await createTestDatabase()
})

const published: PublishResult = { status: 'published' }
const n = (message: Message) => (JSON.parse(message.body) as { n: number }).n

describe('an event that can never be delivered', () => {
  test.for([
    ['headers that are a list', `headers = '[]'`, 'header'],
    ['headers that are nested', `headers = '{"a": {"b": 1}}'`, 'header'],
    ['headers that are numbers', `headers = '{"a": 1}'`, 'header'],
    ['an event type without a route', `event_type = 'unknown.type'`, 'no route'],
    ['an empty topic', `event_type = 'empty.topic'`, 'topic'],
    ['a route that throws', `event_type = 'route.throws'`, 'broken route'],
    ['a payload that is too large', `payload = to_jsonb(repeat('x', 2000))`, 'at most 1000'],
  ] as const)('is a dead letter at once, alone, with the reason: %s', async ([, change, reason]) => {
    await insertEvents(database, [
      { aggregate: 'bad', payload: { n: 1 } },
      { aggregate: 'bad', payload: { n: 2 } },
      { aggregate: 'good', payload: { n: 3 } },
    ])
    await database.query(`UPDATE "waybill".outbox_events SET ${change} WHERE payload->>'n' = '1'`)
    const publisher = recordingPublisher({ maxMessageBytes: 1000 })
    const relay = testRelay(database, {
      destinations: { bus: publisher },
      routes: ({ eventType }) => {
        if (eventType === 'route.throws') throw new Error('broken route')
        if (eventType === 'empty.topic') return { to: 'bus', topic: '' }
        return eventType === 'unknown.type' ? null : { to: 'bus' }
      },
    })
    expect(await relay.drain()).toMatchObject({ published: 2, dead: 1 })
    const [bad, next, good] = await readEvents(database)
    expect(bad).toMatchObject({ dead: true, attempts: 0 })
    expect(bad!.last_error).toContain(reason)
    expect(next).toMatchObject({ published: true })
    expect(good).toMatchObject({ published: true })
  })
})

describe('afterDeadLetter: hold', () => {
  async function withHeldAggregate() {
    await insertEvents(database, [
      { aggregate: 'bad', payload: { n: 1 } },
      { aggregate: 'bad', payload: { n: 2 } },
      { aggregate: 'bad', payload: { n: 3 } },
      { aggregate: 'good', payload: { n: 4 } },
    ])
    let refuse = true
    const publisher = recordingPublisher({
      behave: (message) =>
        refuse && message.aggregateId === 'bad' && n(message) === 1
          ? { status: 'reject', error: rejectedBy('HTTP 422', 'answered 422') }
          : published,
    })
    const db = createConnection({ databaseUrl: database.url, schema: database.schema })
    atEndOfFile(() => db.close())
    return { publisher, db, allow: () => (refuse = false) }
  }

  test('keeps the aggregate back, also through a new relay, until a retry releases it in order', async () => {
    const { publisher, db, allow } = await withHeldAggregate()
    const first = testRelay(database, { destinations: { bus: publisher }, afterDeadLetter: 'hold' })
    await first.start()
    await first.until('event.dead')
    await publisher.untilDelivered(1)
    await first.stop()
    expect(publisher.bodies('bad')).toEqual([])
    const second = testRelay(database, {
      destinations: { bus: publisher },
      afterDeadLetter: 'hold',
      leaseMs: 1000,
    })
    await second.start()
    await insertEvents(database, [{ aggregate: 'good', payload: { n: 5 } }])
    await publisher.untilDelivered(2)
    expect(publisher.bodies('bad')).toEqual([])
    allow()
    const report = await retryDeadLetters(db, database.schema, { all: true, allowOlder: true })
    expect(report).toMatchObject({ changed: 1 })
    await publisher.untilDelivered(5)
    expect(numbers(publisher.bodies('bad'))).toEqual([1, 2, 3])
    await second.stop()
  })

  test('is released by discarding, and the discarded event never goes out', async () => {
    const { publisher, db } = await withHeldAggregate()
    const relay = testRelay(database, {
      destinations: { bus: publisher },
      afterDeadLetter: 'hold',
      leaseMs: 1000,
    })
    await relay.start()
    await relay.until('event.dead')
    await discardDeadLetters(db, database.schema, { all: true, reason: 'an empty order' })
    await publisher.untilDelivered(3)
    expect(numbers(publisher.bodies('bad'))).toEqual([2, 3])
    await relay.stop()
  })
})
