import { beforeEach, describe, expect, test } from 'vitest'
import {
  type Message,
  type PublishResult,
  brokerUnavailable,
  publishFailed,
  publishTimeout,
  rejectedBy,
} from '../../src/publishing/publisher.ts'
import { type TestDatabase, createTestDatabase } from '../support/postgres.ts'
import { insertEvents, numbers, readEvents, testRelay, untilAsleep, upTo } from './harness.ts'
import { recordingPublisher } from './recording-publisher.ts'

let database: TestDatabase
beforeEach(async () => {
  database = await createTestDatabase()
})

const published: PublishResult = { status: 'published' }
const n = (message: Message) => (JSON.parse(message.body) as { n: number }).n

describe('an outage of the destination', () => {
  test('costs no attempt, is told once, and everything arrives in order when it is over', async () => {
    await insertEvents(
      database,
      upTo(20).flatMap((i) => upTo(10).map((a) => ({ aggregate: `a-${a}`, payload: { n: i } }))),
    )
    let away = true
    let probes = 0
    const publisher = recordingPublisher({
      onCall(messages) {
        if (!away) return
        probes++
        // Only what was under way when it began goes out in numbers.
        if (probes > 4) expect(messages).toHaveLength(1)
        throw brokerUnavailable('refused')
      },
    })
    const relay = testRelay(database, { destinations: { bus: publisher }, probeMaxMs: 50 })
    await relay.start()
    await publisher.untilCalled(25)
    expect(publisher.delivered).toHaveLength(0)
    away = false
    await publisher.untilDelivered(200)
    for (const a of upTo(10)) expect(numbers(publisher.bodies(`a-${a}`))).toEqual(upTo(20))
    await relay.stop()
    const rows = await readEvents(database)
    expect(rows.every((row) => row.published && row.attempts === 0)).toBe(true)
    expect(relay.events('destination.down')).toHaveLength(1)
    expect(relay.events('destination.up')).toHaveLength(1)
    expect(relay.events('event.failed')).toHaveLength(0)
  })

  test('of one destination lets the others flow, also with more events than memory holds', async () => {
    await insertEvents(
      database,
      upTo(3000).map((i) => ({ aggregateType: 'down', aggregate: `d-${i}`, payload: { n: i } })),
    )
    await insertEvents(
      database,
      upTo(50).map((i) => ({ aggregateType: 'up', aggregate: `u-${i % 5}`, payload: { n: i } })),
    )
    let away = true
    const down = recordingPublisher({
      onCall() {
        if (away) throw brokerUnavailable('refused')
      },
    })
    const up = recordingPublisher()
    const relay = testRelay(database, {
      destinations: { down, up },
      routes: [{ aggregateType: 'down', to: 'down' }, { to: 'up' }],
      batchSize: 10,
    })
    await relay.start()
    await up.untilDelivered(50)
    expect(down.delivered).toHaveLength(0)
    away = false
    await down.untilDelivered(3000)
    await relay.stop()
    expect(new Set(down.delivered.map(({ message }) => message.eventId)).size).toBe(3000)
    expect((await readEvents(database)).every((row) => row.published && row.attempts === 0)).toBe(true)
  })

  // There is room in memory for a few probes only, and one read asks no more buckets than that.
  test('of every destination lets the relay sleep between its probes', async () => {
    await insertEvents(
      database,
      upTo(10).map((i) => ({ aggregateType: i % 2 === 0 ? 'one' : 'other', aggregate: `a-${i}` })),
    )
    let away = true
    const makePublisher = () =>
      recordingPublisher({
        onCall() {
          if (away) throw brokerUnavailable('refused')
        },
      })
    const [one, other] = [makePublisher(), makePublisher()]
    const relay = testRelay(database, {
      destinations: { one, other },
      routes: [{ aggregateType: 'one', to: 'one' }, { to: 'other' }],
    })
    await relay.start()
    await relay.until('destination.down', (_, all) => all.length === 2)
    await untilAsleep(database)
    away = false
    await Promise.all([one.untilDelivered(5), other.untilDelivered(5)])
    await relay.stop()
    expect((await readEvents(database)).every((row) => row.published && row.attempts === 0)).toBe(true)
  })

  test('holds back the next event of an aggregate though that one goes elsewhere', async () => {
    await insertEvents(database, [
      { type: 'to.down', payload: { n: 1 } },
      { type: 'to.up', payload: { n: 2 } },
      { aggregate: 'other', type: 'to.up', payload: { n: 3 } },
    ])
    let away = true
    const order: number[] = []
    const keep = (message: Message) => {
      order.push(n(message))
      return published
    }
    const down = recordingPublisher({
      onCall() {
        if (away) throw brokerUnavailable('refused')
      },
      behave: keep,
    })
    const up = recordingPublisher({ behave: keep })
    const relay = testRelay(database, {
      destinations: { down, up },
      routes: [{ eventType: 'to.down', to: 'down' }, { to: 'up' }],
    })
    await relay.start()
    await up.untilDelivered(1)
    await down.untilCalled(5)
    expect(order).toEqual([3])
    away = false
    await up.untilDelivered(2)
    expect(order).toEqual([3, 1, 2])
    await relay.stop()
  })

  test('is not posed by one event that resets the receiver: probes go to others, then it counts', async () => {
    await insertEvents(database, [
      { aggregate: 'poison', payload: { n: 0 } },
      ...upTo(30).map((i) => ({ aggregate: `a-${i}`, payload: { n: i } })),
    ])
    const publisher = recordingPublisher({
      behave: (message) =>
        message.aggregateId === 'poison' ? { status: 'retry', error: publishTimeout('reset') } : published,
    })
    const relay = testRelay(database, { destinations: { bus: publisher }, maxAttempts: 3 })
    await relay.start()
    const feed = setInterval(
      () => void insertEvents(database, [{ aggregate: 'fresh', payload: { n: 0 } }]),
      10,
    )
    const dead = await relay.until('event.dead')
    clearInterval(feed)
    expect(dead).toMatchObject({ aggregateId: 'poison', error: 'reset' })
    await publisher.untilDelivered(30)
    await relay.stop()
    const rows = await readEvents(database)
    expect(rows.filter((row) => row.dead).map((row) => [row.aggregate_id, row.attempts])).toEqual([
      ['poison', 3],
    ])
  })

  test('is seen in five equal refusals in a row: none of the five is a dead letter in the end', async () => {
    await insertEvents(
      database,
      upTo(12).map((i) => ({ aggregate: `a-${i}`, payload: { n: i } })),
    )
    let wrong = true
    const publisher = recordingPublisher({
      behave: () =>
        wrong ? { status: 'reject', error: rejectedBy('HTTP 404', 'answered 404 Not Found') } : published,
    })
    const relay = testRelay(database, { destinations: { hook: publisher }, workers: 1, batchSize: 1 })
    await relay.start()
    await relay.until('event.restored')
    expect(relay.events('event.restored')).toMatchObject([{ destination: 'hook', count: 4 }])
    expect(relay.events('destination.down')).toHaveLength(1)
    expect((await readEvents(database)).filter((row) => row.dead)).toEqual([])
    wrong = false
    await publisher.untilDelivered(12)
    await relay.stop()
    expect((await readEvents(database)).every((row) => row.published && !row.dead)).toBe(true)
  })

  test('that answers 500 to everything is told once, counts nothing, and makes the relay not ready', async () => {
    await insertEvents(
      database,
      upTo(6).map((i) => ({ aggregate: `a-${i}`, payload: { n: i } })),
    )
    let broken = true
    const publisher = recordingPublisher({
      behave: () => (broken ? { status: 'retry', error: publishFailed('answered 500') } : published),
    })
    const relay = testRelay(database, { destinations: { hook: publisher } })
    await relay.start()
    await relay.until('event.failed', (_, all) => all.length > 20)
    expect(relay.events('destination.down')).toMatchObject([{ error: 'nothing gets through: answered 500' }])
    expect(relay.health()).toMatchObject({ ready: false, reason: expect.stringContaining('answered 500') })
    broken = false
    await publisher.untilDelivered(6)
    expect(relay.events('destination.up')).toHaveLength(1)
    expect(relay.health()).toMatchObject({ ready: true })
    await relay.stop()
    expect((await readEvents(database)).every((row) => row.published && row.attempts === 0)).toBe(true)
  })

  test('honours what the destination asks for, and counts nothing for it', async () => {
    await insertEvents(database, [{ payload: { n: 1 } }])
    let first = true
    const publisher = recordingPublisher({
      behave() {
        if (!first) return published
        first = false
        return { status: 'retry', error: brokerUnavailable('answered 429', { afterMs: 400 }), afterMs: 400 }
      },
    })
    const relay = testRelay(database, { destinations: { hook: publisher }, probeMaxMs: 10 })
    await relay.start()
    await publisher.untilCalled(1)
    const at = performance.now()
    await publisher.untilDelivered(1)
    expect(performance.now() - at).toBeGreaterThan(390)
    await relay.stop()
    expect(await readEvents(database)).toMatchObject([{ published: true, attempts: 0 }])
  })
})
