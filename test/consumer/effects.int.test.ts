import { randomUUID } from 'node:crypto'
import { beforeAll, expect, test } from 'vitest'
import { type TestDatabase, createTestDatabase } from '../support/postgres.ts'
import { deferred, note, testConsumer } from './harness.ts'

let db: TestDatabase
beforeAll(async () => {
  db = await createTestDatabase()
})

test('a third effect that fails does not repeat the first two', async () => {
  const sent: string[] = []
  let broken = true
  const consumer = await testConsumer(db, {
    handlers: {
      '*': async ({ event, effects }) => {
        await effects.once(`mail:${event.id}`, () => sent.push('mail'))
        await effects.once(`index:${event.id}`, async () => sent.push('index'))
        await effects.once(`hook:${event.id}`, () => {
          if (broken) {
            broken = false
            throw new Error('the hook is away')
          }
          sent.push('hook')
        })
      },
    },
  })
  expect(await consumer.deliver(note())).toEqual({ status: 'done' })
  expect(consumer.events('consumer.failed')).toHaveLength(1)
  expect(sent).toEqual(['mail', 'index', 'hook'])
})

test('a finished effect is not repeated by another event with the same key, nor by one that runs at once', async () => {
  const name = randomUUID()
  const ran: boolean[] = []
  const go = deferred()
  const begun = deferred()
  const handlers = {
    '*': async ({ effects }: any) => {
      ran.push(
        await effects.once('one key', async () => {
          begun.resolve()
          await go.promise
        }),
      )
    },
  }
  const first = await testConsumer(db, { name, handlers })
  const second = await testConsumer(db, { name, handlers })
  const one = first.deliver(note())
  await begun.promise
  const two = second.deliver(note())
  await expect
    .poll(
      () =>
        db.rows(
          `SELECT FROM pg_stat_activity WHERE wait_event = 'advisory' AND datname = current_database()`,
        ),
      { timeout: 20_000 },
    )
    .toHaveLength(1)
  go.resolve()
  await Promise.all([one, two])
  await first.deliver(note())
  expect(ran).toEqual([true, false, false])
})

test('effects of as many handlers as there are connections do not wait for each other', async () => {
  const consumer = await testConsumer(db, {
    concurrency: 2,
    handlers: { '*': ({ event, effects }) => effects.once(event.id, () => undefined) },
  })
  await Promise.all(Array.from({ length: 50 }, () => consumer.deliver(note())))
  const rows = await db.rows('SELECT FROM "waybill".consumer_effects WHERE consumer = $1', [consumer.name])
  expect(rows).toHaveLength(50)
})

test.each([[''], ['x'.repeat(501)], ['a\u0000b'], [7]])(
  'a key that cannot be kept is refused: %j',
  async (key) => {
    const consumer = await testConsumer(db, {
      maxAttempts: 1,
      handlers: { '*': ({ effects }) => effects.once(key as string, () => undefined) },
    })
    await consumer.deliver(note())
    expect(consumer.events('consumer.dead')[0]?.error).toMatch(/1 to 500 characters/)
  },
)
