import { setTimeout as delay } from 'node:timers/promises'
import { beforeEach, describe, expect, test } from 'vitest'
import { createConnection } from '../../src/database/connection.ts'
import { retryDeadLetters } from '../../src/operations/dead-letters.ts'
import { type PublishResult, rejectedBy } from '../../src/publishing/publisher.ts'
import { insertEvents, numbers, readEvents, testRelay, upTo } from '../relay/harness.ts'
import { recordingPublisher } from '../relay/recording-publisher.ts'
import { atEndOfFile } from '../support/cleanups.ts'
import { type TestDatabase, createTestDatabase } from '../support/postgres.ts'
import { createStatementProxy } from './statement-proxy.ts'
import { eventually } from './kit.ts'

let database: TestDatabase
beforeEach(async () => {
  database = await createTestDatabase()
})

const published: PublishResult = { status: 'published' }
const refused: PublishResult = { status: 'reject', error: rejectedBy('HTTP 404', 'answered 404') }
const dead = async () => (await readEvents(database)).filter((row) => row.dead)

describe('five equal refusals, while the first four wait for the fifth', () => {
  /** Four dead letters; the fifth event is under way until the test refuses it too. */
  async function withFour(afterDeadLetter: 'continue' | 'hold') {
    let refuse!: () => void
    const fifth = new Promise<PublishResult>((resolve) => (refuse = () => resolve(refused)))
    let wrong = true
    const bus = recordingPublisher({
      behave({ aggregateId }) {
        if (!wrong) return published
        return aggregateId === 'a-5' ? fifth : refused
      },
    })
    await insertEvents(
      database,
      upTo(5).flatMap((a) => [{ aggregate: `a-${a}`, payload: { n: 1 } }]),
    )
    const relay = testRelay(database, {
      destinations: { bus },
      afterDeadLetter,
      leaseMs: 2_000,
      batchSize: 1,
    })
    await relay.start()
    await eventually('four are dead letters', async () => (await dead()).length === 4)
    return {
      bus,
      relay,
      refuse,
      right: () => (wrong = false),
    }
  }

  test.for(['continue', 'hold'] as const)(
    'and another relay takes their buckets: all five go back, and whoever owns them delivers them (%s)',
    async (afterDeadLetter) => {
      const { bus, relay, refuse, right } = await withFour(afterDeadLetter)
      const other = recordingPublisher()
      const second = testRelay(database, { destinations: { bus: other }, afterDeadLetter, leaseMs: 2_000 })
      await second.start()
      await second.until('relay.buckets', ({ owned }) => owned >= 30)
      await insertEvents(
        database,
        upTo(5).map((a) => ({ aggregate: `a-${a}`, payload: { n: 2 } })),
      )
      refuse()
      await relay.until('destination.down')
      await relay.until('event.restored', ({ count }) => count === 4)
      expect(await dead()).toEqual([])
      right()
      await eventually('everything is published', async () =>
        (await readEvents(database)).every((row) => row.published),
      )
      for (const a of upTo(5)) {
        const both = numbers([...bus.bodies(`a-${a}`), ...other.bodies(`a-${a}`)])
        if (afterDeadLetter === 'hold') expect(both).toEqual([1, 2])
        else expect(both.toSorted()).toEqual([1, 2])
      }
      // The fault was there: some of the four were not the first relay's any more.
      expect(upTo(4).some((a) => other.bodies(`a-${a}`).length === 2)).toBe(true)
      await Promise.all([relay.stop(), second.stop()])
    },
  )

  test('and a bucket is taken away without its knowing: all five go back all the same', async () => {
    const { bus, relay, refuse, right } = await withFour('continue')
    // What another relay does when the lease has run out; this one does not know before its next renewal.
    await database.query(
      `UPDATE "waybill".outbox_buckets SET owner = gen_random_uuid(), epoch = epoch + 1,
              leased_until = clock_timestamp() + interval '1 second'
       WHERE bucket IN (SELECT "waybill".outbox_bucket('order', 'a-' || a) FROM generate_series(1, 2) AS a)`,
    )
    refuse()
    await relay.until('event.restored')
    expect(await dead()).toEqual([])
    right()
    await bus.untilDelivered(5)
    await relay.stop()
  })

  test('and the relay is told to stop: it stops when they are back', async () => {
    const { relay, refuse } = await withFour('continue')
    // Putting them back waits for this.
    const blocker = await database.connect()
    await blocker.query(
      database.sql('BEGIN; SELECT FROM "waybill".outbox_events WHERE dead_at IS NOT NULL FOR UPDATE'),
    )
    refuse()
    await relay.until('destination.down')
    const stopped = relay.stop({ graceMs: 10_000 })
    // Longer than a statement lives whose client is gone.
    await delay(4_000)
    await blocker.query('ROLLBACK')
    expect(await stopped).toEqual({ clean: true })
    expect(await dead()).toEqual([])
  })
})

describe('a dead letter that was put back, while the relay does not know whether it became one', () => {
  /** An event that is refused once; its dead letter goes through a network of which the test is the master. */
  async function withDeadLetter() {
    const proxy = await createStatementProxy(database.url, 'dead_at = now()')
    let open!: () => void
    const opened = new Promise<PublishResult>((resolve) => (open = () => resolve(published)))
    let tries = 0
    const bus = recordingPublisher({ behave: () => (tries++ === 0 ? refused : opened) })
    await insertEvents(
      database,
      upTo(3).map((n) => ({ payload: { n } })),
    )
    const relay = testRelay(
      { url: proxy.url, schema: database.schema },
      { destinations: { bus }, afterDeadLetter: 'hold' },
    )
    const db = createConnection({ databaseUrl: database.url, schema: database.schema })
    atEndOfFile(() => db.close())
    return {
      ...{ proxy, bus, relay, open },
      async putBack() {
        expect(await retryDeadLetters(db, database.schema, { all: true })).toMatchObject({ changed: 1 })
      },
      async finish() {
        await eventually('all are published', async () =>
          (await readEvents(database)).every((row) => row.published),
        )
        expect(numbers(bus.bodies('a-1'))).toEqual([1, 2, 3])
        await relay.stop()
      },
    }
  }

  test('since the answer was lost: it does not bury it again', async () => {
    const { proxy, relay, putBack, open, finish } = await withDeadLetter()
    proxy.loseAnswer()
    await relay.start()
    await proxy.struck
    await eventually('it is a dead letter', async () => (await dead()).length === 1)
    await putBack()
    open()
    await proxy.up()
    await finish()
    expect(await dead()).toEqual([])
  })

  test('since the statement is still on its way: it buries nothing when it comes', async () => {
    const { proxy, bus, relay, putBack, open, finish } = await withDeadLetter()
    proxy.holdBack()
    await relay.start()
    await proxy.struck
    await proxy.up()
    // Sent again, by another session.
    await relay.until('event.dead')
    expect(await dead()).toHaveLength(1)
    await putBack()
    await bus.untilCalled(2)
    expect(await proxy.deliver()).toContain('SELECT 1')
    expect(await dead()).toEqual([])
    open()
    await finish()
  })
})
