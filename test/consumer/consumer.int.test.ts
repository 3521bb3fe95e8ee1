import { randomUUID } from 'node:crypto'
import { beforeAll, describe, expect, test } from 'vitest'
import { pg } from '../../src/clients/pg.ts'
import { reject } from '../../src/consumer/index.ts'
import { createOutbox } from '../../src/index.ts'
import { type TestDatabase, createTestDatabase, untilOneWaits } from '../support/postgres.ts'
import { testSchema } from '../support/target.ts'
import { deferred, note, testConsumer } from './harness.ts'

let db: TestDatabase
beforeAll(async () => {
  db = await createTestDatabase()
  await db.query('CREATE TABLE done (event_id text, n int)')
  await db.query(
    'CREATE TABLE checked (id text PRIMARY KEY, parent text REFERENCES checked DEFERRABLE INITIALLY DEFERRED)',
  )
})

const write = 'INSERT INTO done (event_id) VALUES ($1)'
const writes = async (id: string) =>
  (await db.rows('SELECT count(*)::int AS n FROM done WHERE event_id = $1', [id]))[0]!['n'] as number
const row = async (consumer: string, id: string) =>
  (
    await db.rows(
      `SELECT result, attempts, error, revision, aggregate_id FROM "waybill".processed_events
       WHERE consumer = $1 AND event_id = $2`,
      [consumer, id],
    )
  )[0]

describe('an event', () => {
  test('is handled once: its writes, the inbox row and the result commit together', async () => {
    const consumer = await testConsumer(db, {
      handlers: {
        'note.published': async ({ event, tx }) => {
          await tx.query(write, [event.id])
          // Nobody else sees either of them before the commit.
          expect(await writes(event.id)).toBe(0)
          expect(await row(consumer.name, event.id)).toBeUndefined()
        },
      },
    })
    const message = note({ revision: '7' })
    expect(await consumer.deliver(message)).toEqual({ status: 'done' })
    expect(await writes(message.eventId)).toBe(1)
    expect(await row(consumer.name, message.eventId)).toEqual({
      ...{ result: 'applied', attempts: 1, error: null, revision: '7', aggregate_id: message.aggregateId },
    })
    expect(await consumer.deliver(message)).toEqual({ status: 'done' })
    expect(await writes(message.eventId)).toBe(1)
    expect(consumer.events('consumer.handled').map(({ result }) => result)).toEqual(['applied', 'duplicate'])
  })

  test.each(['read committed', 'repeatable read', 'serializable'] as const)(
    'that two processes get at once runs in one: the second waits (%s)',
    async (isolation) => {
      const name = randomUUID()
      const running = deferred()
      const go = deferred()
      const ran: string[] = []
      const handler =
        (who: string) =>
        async ({ event, tx }: any) => {
          ran.push(who)
          running.resolve()
          await go.promise
          await tx.query(write, [event.id])
        }
      const first = await testConsumer(db, { name, isolation, handlers: { '*': handler('first') } })
      const second = await testConsumer(db, { name, isolation, handlers: { '*': handler('second') } })
      const message = note()
      const one = first.deliver(message)
      await running.promise
      const two = second.deliver(message)
      await untilOneWaits(db)
      go.resolve()
      expect(await Promise.all([one, two])).toEqual([{ status: 'done' }, { status: 'done' }])
      expect(ran).toEqual(['first'])
      expect(await writes(message.eventId)).toBe(1)
      expect(second.events('consumer.handled')[0]?.result).toBe('duplicate')
    },
  )

  test('that two processes get at once runs in the second when the first rolls back', async () => {
    const name = randomUUID()
    const running = deferred()
    const go = deferred()
    const first = await testConsumer(db, {
      name,
      maxAttempts: 1_000,
      handlers: {
        '*': async ({ event, tx }) => {
          await tx.query(write, [event.id])
          running.resolve()
          await go.promise
          throw new Error('no')
        },
      },
    })
    const second = await testConsumer(db, {
      name,
      handlers: { '*': ({ event, tx }) => tx.query(write, [event.id]) },
    })
    const message = note()
    const one = first.deliver(message)
    await running.promise
    const two = second.deliver(message)
    await untilOneWaits(db)
    go.resolve()
    expect(await Promise.all([one, two])).toEqual([{ status: 'done' }, { status: 'done' }])
    expect(await writes(message.eventId)).toBe(1)
    expect(second.events('consumer.handled')[0]?.result).toBe('applied')
    expect(first.events('consumer.failed')).toHaveLength(1)
  })

  test('is tried again after a failure, and its number of tries is on record', async () => {
    const tries: number[] = []
    const consumer = await testConsumer(db, {
      handlers: {
        '*': async ({ event, tx, attempt }) => {
          tries.push(attempt)
          await tx.query(write, [event.id])
          if (attempt < 3) throw new Error('not yet')
        },
      },
    })
    const message = note()
    expect(await consumer.deliver(message)).toEqual({ status: 'done' })
    expect(tries).toEqual([1, 2, 3])
    expect(await writes(message.eventId)).toBe(1)
    expect(await row(consumer.name, message.eventId)).toMatchObject({ result: 'applied', attempts: 3 })
    expect(
      await db.rows('SELECT FROM "waybill".consumer_messages WHERE consumer = $1', [consumer.name]),
    ).toEqual([])
  })

  test('may publish in the same transaction', async () => {
    const outbox = createOutbox({ client: pg(), schema: testSchema })
    let tries = 0
    const consumer = await testConsumer(db, {
      handlers: {
        '*': async ({ event, tx }) => {
          await outbox.publish(tx, { type: 'next', aggregate: ['next', event.id], payload: {} })
          if (++tries === 1) throw new Error('after publishing')
        },
      },
    })
    const message = note()
    await consumer.deliver(message)
    expect(tries).toBe(2)
    const events = await db.rows('SELECT FROM "waybill".outbox_events WHERE aggregate_id = $1', [
      message.eventId,
    ])
    expect(events).toHaveLength(1)
  })
})

describe('a handler', () => {
  const brokenBy = async (handler: (context: any) => unknown, maxAttempts = 2) => {
    const consumer = await testConsumer(db, { maxAttempts, handlers: { '*': handler } })
    const message = note()
    expect(await consumer.deliver(message)).toEqual({ status: 'done' })
    expect(await writes(message.eventId)).toBe(0)
    const found = await row(consumer.name, message.eventId)
    expect(found).toMatchObject({ result: 'rejected', attempts: maxAttempts })
    return found!['error'] as string
  }

  test('that swallows an error of the database is found out', async () => {
    const error = await brokenBy(async ({ event, tx }) => {
      await tx.query(write, [event.id])
      await tx.query('SELECT 1/0').catch(() => undefined)
    })
    expect(error).toMatch(/a statement of the handler failed and the handler went on/)
  })

  test('whose last statement fails unseen is found out, since COMMIT is answered with ROLLBACK', async () => {
    const error = await brokenBy(async ({ event, tx }) => {
      await tx.query(write, [event.id])
      // Not waited for: the second statement comes behind the last check of the consumer, and before its COMMIT.
      tx.query('SELECT 1')
        .then(() => tx.query('SELECT 1/0'))
        .catch(() => undefined)
    }, 1)
    expect(error).toMatch(/PostgreSQL answered COMMIT with ROLLBACK/)
  })

  test('that breaks a deferred constraint fails at the commit', async () => {
    const error = await brokenBy(async ({ event, tx }) => {
      await tx.query(write, [event.id])
      await tx.query(`INSERT INTO checked VALUES ($1, 'nobody')`, [event.id])
    })
    expect(error).toMatch(/foreign key/)
  })

  test.each(['ROLLBACK', 'COMMIT', 'ROLLBACK; BEGIN'])(
    'that ends the transaction by %s is found out',
    async (sql) => {
      const consumer = await testConsumer(db, {
        maxAttempts: 1,
        handlers: {
          '*': async ({ tx }) => {
            await tx.query(sql)
          },
        },
      })
      await consumer.deliver(note())
      const told = consumer.events(sql === 'COMMIT' ? 'consumer.failed' : 'consumer.dead')
      if (sql === 'COMMIT') {
        // What it committed stays committed, the inbox row among it: the event counts as handled.
        expect(told).toHaveLength(0)
        return
      }
      expect(told[0]?.error).toMatch(/the transaction that the consumer began is not there any more/)
    },
  )

  test('that hangs is given up, and what it does later goes nowhere', async () => {
    const late = deferred<unknown>()
    const go = deferred()
    const consumer = await testConsumer(db, {
      maxAttempts: 1,
      handlerTimeoutMs: 50,
      handlers: {
        '*': async ({ event, tx, signal }) => {
          await new Promise((resolve) => signal.addEventListener('abort', resolve))
          await go.promise
          late.resolve(await tx.query(write, [event.id]).catch((error: unknown) => error))
        },
      },
    })
    const message = note()
    expect(await consumer.deliver(message)).toEqual({ status: 'done' })
    go.resolve()
    expect(await late.promise).toMatchObject({ code: 'NOT_IN_TRANSACTION' })
    expect(await writes(message.eventId)).toBe(0)
    expect((await row(consumer.name, message.eventId))!['error']).toMatch(/did not end within 50 ms/)
  })

  test('that keeps the handle beyond its end cannot write with it', async () => {
    let kept: any
    const consumer = await testConsumer(db, { handlers: { '*': ({ tx }) => void (kept = tx) } })
    const message = note()
    await consumer.deliver(message)
    await expect(kept.query(write, [message.eventId])).rejects.toMatchObject({ code: 'NOT_IN_TRANSACTION' })
    expect(await writes(message.eventId)).toBe(0)
  })

  test('can say that an event will never do', async () => {
    let tries = 0
    const consumer = await testConsumer(db, {
      handlers: {
        '*': () => {
          tries++
          throw reject('there is no tenant 7')
        },
      },
    })
    const message = note()
    await consumer.deliver(message)
    expect(tries).toBe(1)
    expect(await row(consumer.name, message.eventId)).toMatchObject({
      ...{ result: 'rejected', error: 'there is no tenant 7' },
    })
  })

  test('is tried again at once, uncounted, when transactions got in each other’s way', async () => {
    let tries = 0
    const consumer = await testConsumer(db, {
      maxAttempts: 1,
      handlers: {
        '*': async ({ tx }) => {
          if (++tries < 4) await tx.query(`DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = '40001'; END $$`)
        },
      },
    })
    await consumer.deliver(note())
    expect(tries).toBe(4)
    expect(consumer.events('consumer.failed')).toEqual([])
  })

  test('whose session is killed is tried again, uncounted', async () => {
    let tries = 0
    const consumer = await testConsumer(db, {
      maxAttempts: 1,
      handlers: {
        '*': async ({ event, tx }) => {
          if (++tries > 1) return tx.query(write, [event.id])
          const { rows } = await tx.query('SELECT pg_backend_pid() AS pid')
          await db.query('SELECT pg_terminate_backend($1, 5000)', [rows[0]!['pid']])
          // It need not even use the connection again.
          await new Promise(() => undefined)
        },
      },
    })
    const message = note()
    expect(await consumer.deliver(message)).toEqual({ status: 'done' })
    expect(tries).toBe(2)
    expect(await writes(message.eventId)).toBe(1)
  })
})
