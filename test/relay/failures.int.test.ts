import { beforeEach, describe, expect, test } from 'vitest'
import {
  type Message,
  type PublishResult,
  brokerUnavailable,
  publishFailed,
  publishTimeout,
} from '../../src/publishing/publisher.ts'
import { type TestDatabase, createTestDatabase } from '../support/postgres.ts'
import { insertEvents, numbers, readEvents, testRelay, upTo } from './harness.ts'
import { recordingPublisher } from './recording-publisher.ts'

let database: TestDatabase
beforeEach(async () => {
  database = await createTestDatabase()
})

const published: PublishResult = { status: 'published' }
const n = (message: Message) => (JSON.parse(message.body) as { n: number }).n

describe('an event that fails', () => {
  test('is counted while others get through, holds back its own aggregate only, and ends as a dead letter', async () => {
    await insertEvents(database, [
      { aggregate: 'bad', payload: { n: 1 } },
      { aggregate: 'bad', payload: { n: 2 } },
      ...upTo(200).map((i) => ({ aggregate: `a-${i % 20}`, payload: { n: i } })),
    ])
    let goodBeforeDead = 0
    const publisher = recordingPublisher({
      behave(message) {
        if (message.aggregateId === 'bad' && n(message) === 1)
          return { status: 'retry', error: publishFailed('answered 500') }
        if (message.aggregateId !== 'bad') goodBeforeDead++
        return published
      },
    })
    const relay = testRelay(database, {
      destinations: { bus: publisher },
      maxAttempts: 4,
      batchSize: 20,
      workers: 1,
    })
    await relay.start()
    await relay.until('event.failed', ({ counted }) => counted)
    // Evidence needs others: they come one after the other.
    const feed = setInterval(
      () => void insertEvents(database, [{ aggregate: 'fresh', payload: { n: 0 } }]),
      10,
    )
    await relay.until('event.dead')
    clearInterval(feed)
    await relay.until('batch.finished', () => publisher.bodies('bad').length === 1)
    expect(numbers(publisher.bodies('bad'))).toEqual([2])
    expect(goodBeforeDead).toBeGreaterThanOrEqual(200)
    await relay.stop()
    const [bad] = await readEvents(database)
    expect(bad).toMatchObject({
      dead: true,
      published: false,
      attempts: 4,
      last_error: 'answered 500',
      holds: false,
    })
    expect(relay.events('event.failed').map(({ attempt }) => attempt)).toEqual(
      expect.arrayContaining([1, 2, 3]),
    )
  })

  test('is not counted without evidence, until an explicit answer has gone on for the grace time', async () => {
    await insertEvents(database, [{ payload: { n: 1 } }])
    const publisher = recordingPublisher({
      behave: () => ({ status: 'retry', error: publishFailed('nack') }),
    })
    const relay = testRelay(database, {
      destinations: { bus: publisher },
      maxAttempts: 2,
      outageGraceMs: 1_000,
      retryMaxMs: 20,
    })
    await relay.start()
    await relay.until('event.dead')
    const counted = relay.events('event.failed').map((event) => event.counted)
    expect(counted.length).toBeGreaterThan(2)
    expect(counted.slice(0, -1).some(Boolean)).toBe(false)
    expect(counted.at(-1)).toBe(true)
    await relay.stop()
    expect(await readEvents(database)).toMatchObject([{ dead: true, attempts: 2 }])
  })

  test('keeps its aggregate in order through retries, in a batch too', async () => {
    await insertEvents(
      database,
      upTo(50).flatMap((i) => ['x', 'y'].map((aggregate) => ({ aggregate, payload: { n: i } }))),
    )
    for (const ordering of ['batch', 'per-call'] as const) {
      const failed = new Set<string>()
      await database.query(
        'UPDATE "waybill".outbox_events SET processed_at = NULL, attempts = 0, retry_after = NULL',
      )
      const publisher = recordingPublisher({
        ordering,
        behave(message) {
          if (n(message) % 7 !== 0 || failed.has(message.eventId)) return published
          failed.add(message.eventId)
          return { status: 'retry', error: publishFailed('once') }
        },
      })
      const relay = testRelay(database, { destinations: { bus: publisher }, batchSize: 10 })
      await relay.start()
      await publisher.untilDelivered(100)
      expect(failed.size).toBe(14)
      for (const aggregate of ['x', 'y']) expect(numbers(publisher.bodies(aggregate))).toEqual(upTo(50))
      await relay.stop()
    }
  })

  test('that hangs until the limit holds back its own aggregate only', async () => {
    await insertEvents(database, [
      ...upTo(3).map((i) => ({ aggregate: `hang-${i}`, payload: { n: 0 } })),
      ...upTo(100).flatMap((i) => upTo(5).map((a) => ({ aggregate: `a-${a}`, payload: { n: i } }))),
    ])
    const publisher = recordingPublisher({
      behave: (message, signal) =>
        message.aggregateId.startsWith('hang')
          ? new Promise((resolve) =>
              signal.addEventListener('abort', () =>
                resolve({ status: 'retry', error: publishTimeout('late') }),
              ),
            )
          : published,
    })
    const relay = testRelay(database, {
      destinations: { bus: publisher },
      publishTimeoutMs: 20_000,
      batchSize: 10,
    })
    const at = performance.now()
    await relay.start()
    await publisher.untilDelivered(500)
    expect(performance.now() - at).toBeLessThan(10_000)
    for (const a of upTo(5)) expect(numbers(publisher.bodies(`a-${a}`))).toEqual(upTo(100))
    await relay.stop({ graceMs: 0 })
  })

  test('a row with times without end is read like any other, and its neighbours too', async () => {
    await insertEvents(database, [{ aggregate: 'x' }, { aggregate: 'y' }, { aggregate: 'z' }])
    await database.query(
      `UPDATE "waybill".outbox_events SET created_at = 'infinity' WHERE aggregate_id = 'x'`,
    )
    await database.query(
      `UPDATE "waybill".outbox_events SET retry_after = 'infinity' WHERE aggregate_id = 'y'`,
    )
    const publisher = recordingPublisher()
    expect(await testRelay(database, { destinations: { bus: publisher } }).drain()).toMatchObject({
      published: 1,
      dead: 1,
    })
    expect(await readEvents(database)).toMatchObject([
      { aggregate_id: 'x', dead: true },
      { aggregate_id: 'y', dead: false, published: false },
      { aggregate_id: 'z', published: true },
    ])
  })

  test('waits out its pause also with a new relay', async () => {
    await insertEvents(database, [
      { payload: { n: 1 } },
      { payload: { n: 2 } },
      { aggregate: 'other', payload: { n: 3 } },
    ])
    const at = performance.now()
    await database.query(`UPDATE "waybill".outbox_events SET retry_after = clock_timestamp() + interval '700 ms', attempts = 1,
      last_attempt_at = now() WHERE payload->>'n' = '1'`)
    const publisher = recordingPublisher()
    const relay = testRelay(database, { destinations: { bus: publisher } })
    await relay.start()
    await publisher.untilDelivered(1)
    expect(numbers(publisher.delivered.map(({ message }) => message.body))).toEqual([3])
    await publisher.untilDelivered(3)
    expect(performance.now() - at).toBeGreaterThan(695)
    expect(numbers(publisher.bodies('a-1'))).toEqual([1, 2])
    await relay.stop()
  })

  test.for([
    ['undefined', undefined],
    ['a text with U+0000', 'a\u0000b'],
    ['five megabytes', 'x'.repeat(5_000_000)],
    ['a circular cause', circular()],
    ['a lone surrogate', '\ud800'],
    ['an object whose message throws', throwing()],
  ] as const)('is stored whatever the publisher throws: %s', async ([, thrown]) => {
    await insertEvents(database, [{ aggregate: 'bad' }, { aggregate: 'good' }])
    const publisher = recordingPublisher({
      onCall(messages) {
        // eslint-disable-next-line no-throw-literal -- that is what is tested
        if (messages.some((message) => message.aggregateId === 'bad')) throw thrown
      },
    })
    const relay = testRelay(database, { destinations: { bus: publisher }, maxAttempts: 1, outageGraceMs: 0 })
    await relay.start()
    // An exception is no answer: it counts only while others get through.
    const feed = setInterval(() => void insertEvents(database, [{ aggregate: 'fresh' }]), 10)
    await relay.until('event.dead')
    clearInterval(feed)
    await relay.stop()
    const [bad, good] = await readEvents(database)
    expect(bad).toMatchObject({ dead: true })
    expect(bad!.last_error!.length).toBeGreaterThan(0)
    expect(bad!.last_error!.length).toBeLessThanOrEqual(2000)
    expect(good).toMatchObject({ published: true })
  })

  test('an exception makes all of the batch go again, then one by one', async () => {
    await insertEvents(
      database,
      upTo(10).map((i) => ({ aggregate: `a-${i}`, payload: { n: i } })),
    )
    const publisher = recordingPublisher({
      onCall(messages) {
        if (messages.some((message) => n(message) === 5)) throw new TypeError('cannot read')
      },
    })
    const relay = testRelay(database, {
      destinations: { bus: publisher },
      workers: 1,
      maxAttempts: 1,
      outageGraceMs: 0,
    })
    await relay.start()
    await publisher.untilDelivered(9)
    await relay.until('event.dead')
    await relay.stop()
    expect(publisher.calls.slice(0, 3).map((call) => call.length)).toEqual([10, 10, 1])
    expect((await readEvents(database)).filter((row) => row.dead)).toHaveLength(1)
  })

  test.for<[string, () => Promise<void>]>([
    ['lets its call run into the limit', () => new Promise(() => undefined)],
    ['resets the receiver', () => Promise.reject(brokerUnavailable('reset'))],
  ])('that %s is found out, and costs those of the same call nothing', async ([, fail]) => {
    await insertEvents(
      database,
      upTo(10).map((i) => ({ aggregate: `a-${i}`, payload: { n: i } })),
    )
    const publisher = recordingPublisher({
      onCall: (messages) => (messages.some((message) => n(message) === 5) ? fail() : undefined),
    })
    const relay = testRelay(database, {
      ...{ destinations: { bus: publisher }, workers: 1, maxAttempts: 3, publishTimeoutMs: 50 },
    })
    await relay.start()
    // Evidence needs others: they come one after the other.
    const feed = setInterval(
      () => void insertEvents(database, [{ aggregate: 'fresh', payload: { n: 0 } }]),
      10,
    )
    await relay.until('event.dead')
    clearInterval(feed)
    await relay.until('batch.finished', () => publisher.bodies('fresh').length > 0)
    await relay.stop()
    const events = await readEvents(database)
    expect(events.filter(({ dead }) => dead)).toMatchObject([{ aggregate_id: 'a-5', attempts: 3 }])
    expect(events.filter(({ attempts, dead }) => attempts > 0 && !dead)).toEqual([])
    expect(events.filter(({ published, aggregate_id: id }) => published && id !== 'fresh')).toHaveLength(9)
  })

  test('a publisher that never answers is given up after the limit, and what comes back too late changes nothing', async () => {
    await insertEvents(database, [{ payload: { n: 1 } }])
    let answerLate: (() => void) | undefined
    const publisher = recordingPublisher({
      behave: () =>
        answerLate === undefined
          ? new Promise<PublishResult>(
              (resolve) => (answerLate = () => resolve({ status: 'reject', error: new Error('late') })),
            )
          : published,
    })
    const relay = testRelay(database, { destinations: { bus: publisher }, publishTimeoutMs: 50 })
    await relay.start()
    await publisher.untilDelivered(1)
    answerLate!()
    await relay.stop()
    expect(await readEvents(database)).toMatchObject([{ published: true, attempts: 0 }])
  })

  test.for([
    ['too few results', []],
    ['no array', 'done'],
    ['a result without status', [{}]],
  ] as const)('an answer that breaks the contract is no confirmation: %s', async ([, answer]) => {
    await insertEvents(database, [{ payload: { n: 1 } }])
    const publisher = { ...recordingPublisher(), publish: () => Promise.resolve(answer as never) }
    const relay = testRelay(database, { destinations: { bus: publisher }, maxAttempts: 1, outageGraceMs: 0 })
    await relay.start()
    const down = await relay.until('destination.down')
    expect(down.error).toContain('one result for each')
    await relay.stop()
    expect(await readEvents(database)).toMatchObject([{ published: false, dead: false, attempts: 0 }])
  })
})

function circular(): Error {
  const error = new Error('round and round')
  error.cause = new Error('inner', { cause: error })
  return error
}

function throwing(): Error {
  return Object.defineProperty(new Error(), 'message', {
    get() {
      throw new Error('no message for you')
    },
  })
}
