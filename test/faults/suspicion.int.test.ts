import { beforeEach, describe, expect, test } from 'vitest'
import type { PublishResult } from '../../src/publishing/publisher.ts'
import { insertEvents, readEvents, testRelay, upTo } from '../relay/harness.ts'
import { recordingPublisher } from '../relay/recording-publisher.ts'
import { type TestDatabase, createTestDatabase } from '../support/postgres.ts'
import { eventually, untilWaiting } from './kit.ts'
import { createStatementProxy } from './statement-proxy.ts'

let database: TestDatabase
beforeEach(async () => {
  database = await createTestDatabase()
})

/** All buckets are those of a relay that died, and nearly each of them has events. */
async function orphan({ events = 300 } = {}): Promise<void> {
  await insertEvents(
    database,
    upTo(events).map((n) => ({ aggregate: `a-${n}`, payload: { n } })),
  )
  await database.query(
    `UPDATE "waybill".outbox_buckets SET owner = gen_random_uuid(), epoch = 7,
            leased_until = clock_timestamp() - interval '1 second'`,
  )
}

async function lock(rows: string): Promise<() => Promise<unknown>> {
  const blocker = await database.connect()
  await blocker.query(database.sql(`BEGIN; SELECT FROM "waybill".${rows} FOR UPDATE`))
  return () => blocker.query('ROLLBACK')
}

const finish = () =>
  eventually('all are published, and nobody is blamed', async () =>
    (await readEvents(database)).every(({ published, crashes, dead }) => published && crashes === 0 && !dead),
  )

describe('what a relay suspects since another one died, it does not keep to itself', () => {
  test('when it hands over its surplus: whoever has the bucket then tries those events with care', async () => {
    await orphan()
    // Nothing can be put on record, and so nothing is tried.
    const unlock = await lock('outbox_events')
    const tuning = { destinations: { bus: recordingPublisher() }, batchSize: 1 }
    const first = testRelay(database, tuning)
    await first.start()
    await untilWaiting(database, 'waybill mark')
    expect(first.events('relay.crash_suspected')).toHaveLength(64)
    const second = testRelay(database, tuning)
    await second.start()
    await second.until('relay.buckets', ({ owned }) => owned >= 30)
    expect(second.events('relay.crash_suspected').length).toBeGreaterThanOrEqual(28)
    await unlock()
    await finish()
    await Promise.all([first.stop(), second.stop()])
  })

  test('when it stops: the next one tries those events with care', async () => {
    await orphan()
    const never = (_: unknown, signal: AbortSignal) =>
      new Promise<PublishResult>((resolve) =>
        signal.addEventListener('abort', () => resolve({ status: 'retry', error: new Error('stopped') })),
      )
    const hanging = recordingPublisher({ behave: never })
    const first = testRelay(database, { destinations: { bus: hanging }, batchSize: 1 })
    await first.start()
    await hanging.untilCalled(1)
    await first.stop({ graceMs: 100 })
    const second = testRelay(database, { destinations: { bus: recordingPublisher() } })
    await second.start()
    await second.until('relay.buckets', ({ owned }) => owned >= 60)
    expect(second.events('relay.crash_suspected').length).toBeGreaterThanOrEqual(56)
    await finish()
    await second.stop()
  })

  test('when the answer is lost by which it took the buckets: it suspects all the same', async () => {
    await orphan()
    const proxy = await createStatementProxy(database.url, 'epoch = b.epoch + 1')
    proxy.loseAnswer()
    const relay = testRelay(
      { url: proxy.url, schema: database.schema },
      { destinations: { bus: recordingPublisher() } },
    )
    await relay.start()
    await proxy.struck
    await proxy.up()
    await relay.until('relay.buckets', ({ owned }) => owned === 64)
    expect(relay.events('relay.crash_suspected')).toHaveLength(64)
    await finish()
    await relay.stop()
  })

  test('when it is told to stop before the try that it put on record: the deaths before it stay on record', async () => {
    await orphan({ events: 1 })
    await database.query('UPDATE "waybill".outbox_events SET crashes = 2')
    const unlock = await lock('outbox_events')
    const bus = recordingPublisher()
    const first = testRelay(database, { destinations: { bus } })
    await first.start()
    await untilWaiting(database, 'waybill mark')
    const stopped = first.stop({ graceMs: 10_000 })
    await unlock()
    expect(await stopped).toEqual({ clean: true })
    expect(bus.calls).toEqual([])
    expect(await readEvents(database)).toMatchObject([{ crashes: 2, published: false }])
    const second = testRelay(database, { destinations: { bus } })
    await second.start()
    await finish()
    await second.stop()
  })
})
