import { randomUUID } from 'node:crypto'
import pg from 'pg'
import { beforeAll, describe, expect, test } from 'vitest'
import { createConsumer } from '../../src/consumer/index.ts'
import { cleanDedupeMemory } from '../../src/consumer/cleaner.ts'
import { openStore } from '../../src/consumer/open-store.ts'
import { createRegistration } from '../../src/consumer/registration.ts'
import { atEndOfFile } from '../support/cleanups.ts'
import { type TestDatabase, createTestDatabase, startTestServer } from '../support/postgres.ts'
import { testSchema } from '../support/target.ts'
import { deferred, handSource, note, testConsumer, toDelivery } from './harness.ts'

let db: TestDatabase
beforeAll(async () => {
  db = await createTestDatabase()
  await db.query('CREATE TABLE done (event_id text, at int GENERATED ALWAYS AS IDENTITY)')
})
const write = 'INSERT INTO done (event_id) VALUES ($1)'
const writes = async (id: string) => (await db.rows('SELECT FROM done WHERE event_id = $1', [id])).length

describe('events', () => {
  test('of one aggregate run in order, those of many at once, and never more than allowed', async () => {
    let running = 0
    let most = 0
    const order: Record<string, number[]> = {}
    const consumer = await testConsumer(db, {
      concurrency: 3,
      handlers: {
        '*': async ({ event, tx }) => {
          most = Math.max(most, ++running)
          ;(order[event.aggregateId] ??= []).push(event.payload as number)
          await tx.query('SELECT pg_sleep(random() / 200)')
          running--
          if (Math.random() < 0.1) throw new Error('now and then')
        },
      },
    })
    const messages = Array.from({ length: 10 }, (_, n) =>
      Array.from({ length: 8 }, (_, a) => note({ aggregateId: `${a}`, body: String(n) })),
    ).flat()
    const answers = await Promise.all(messages.map((message) => consumer.deliver(message)))
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set(['done']))
    expect(most).toBe(3)
    for (const seen of Object.values(order)) expect([...seen].sort((a, b) => a - b)).toEqual(seen)
  })
})

describe('a stop', () => {
  test('waits for the handler under way, and gives back what has not begun', async () => {
    const begun = deferred()
    const go = deferred()
    const consumer = await testConsumer(db, {
      handlers: {
        '*': async ({ event, tx }) => {
          begun.resolve()
          await go.promise
          await tx.query(write, [event.id])
        },
      },
    })
    const [first, second] = [note({ aggregateId: 'same' }), note({ aggregateId: 'same' })]
    const answers = [consumer.deliver(first), consumer.deliver(second)]
    await begun.promise
    const stopping = consumer.stop()
    expect(await consumer.deliver(note())).toMatchObject({
      status: 'again',
      error: { code: 'BROKER_UNAVAILABLE' },
    })
    go.resolve()
    expect(await stopping).toEqual({ clean: true })
    expect(await Promise.all(answers)).toMatchObject([{ status: 'done' }, { status: 'again' }])
    expect([await writes(first.eventId), await writes(second.eventId)]).toEqual([1, 0])
    expect(await consumer.stop()).toEqual({ clean: true })
  })

  test('takes back what does not end in time', async () => {
    const begun = deferred()
    const consumer = await testConsumer(db, {
      handlers: {
        '*': async ({ event, tx, signal }) => {
          await tx.query(write, [event.id])
          begun.resolve()
          await new Promise((resolve) => signal.addEventListener('abort', resolve))
          await new Promise(() => undefined)
        },
      },
    })
    const message = note()
    const answer = consumer.deliver(message)
    await begun.promise
    expect(await consumer.stop({ graceMs: 50 })).toEqual({ clean: false })
    expect(await answer).toMatchObject({ status: 'again' })
    expect(await writes(message.eventId)).toBe(0)
  })

  test('ends a wait for the next try', async () => {
    const consumer = await testConsumer(db, {
      ...{ retryBaseMs: 3_600_000, retryMaxMs: 3_600_000 },
      handlers: {
        '*': () => {
          throw new Error('no')
        },
      },
    })
    const answer = consumer.deliver(note())
    await consumer.until('consumer.failed')
    expect(await consumer.stop()).toEqual({ clean: true })
    expect(await answer).toMatchObject({ status: 'again' })
  })
})

test('a delivery that the source has lost is not begun', async () => {
  const begun = deferred()
  const go = deferred()
  const ran: string[] = []
  const consumer = await testConsumer(db, {
    handlers: {
      '*': async ({ event }) => {
        ran.push(event.id)
        begun.resolve()
        await go.promise
      },
    },
  })
  const [first, second] = [note({ aggregateId: 'lost' }), note({ aggregateId: 'lost' })]
  const lost = new AbortController()
  const answers = [consumer.deliver(first), consumer.deliver(second, { lost: lost.signal })]
  await begun.promise
  lost.abort()
  go.resolve()
  expect(await Promise.all(answers)).toMatchObject([{ status: 'done' }, { status: 'again' }])
  expect(ran).toEqual([first.eventId])
})

test('a database that is away is waited for, and no attempt is counted', { timeout: 90_000 }, async () => {
  const server = await startTestServer()
  const own = await createTestDatabase({ server })
  let tries = 0
  const consumer = await testConsumer(own, { maxAttempts: 1, handlers: { '*': () => void tries++ } })
  await consumer.deliver(note())
  await server.kill('SIGQUIT')
  const answer = consumer.deliver(note())
  const soon = await consumer.until('database.down')
  expect(soon.error).not.toBe('')
  await server.restart()
  expect(await answer).toEqual({ status: 'done' })
  await consumer.until('database.up')
  expect(tries).toBe(2)
  expect(consumer.events('consumer.dead')).toEqual([])
  await consumer.stop()
})

describe('where the consumer keeps its tables', () => {
  test('may be a pool, which stays open', async () => {
    const pool = new pg.Pool({ connectionString: db.url, max: 2 })
    pool.on('error', () => undefined)
    atEndOfFile(() => pool.end())
    const consumer = await testConsumer(db, {
      database: pool,
      handlers: {
        '*': async ({ event, tx, effects }) => {
          await effects.once(event.id, () => undefined)
          await tx.query(write, [event.id])
        },
      },
    })
    const messages = Array.from({ length: 20 }, () => note())
    await Promise.all(messages.map((message) => consumer.deliver(message)))
    expect(await writes(messages[7]!.eventId)).toBe(1)
    await consumer.stop()
    expect((await pool.query('SELECT 1 AS one')).rows).toEqual([{ one: 1 }])
  })

  test('may be another library, by a function that runs transactions', async () => {
    const pool = new pg.Pool({ connectionString: db.url })
    pool.on('error', () => undefined)
    atEndOfFile(() => pool.end())
    const source = handSource()
    const name = randomUUID()
    const consumer = createConsumer<{ run(sql: string, params: unknown[]): Promise<unknown> }>({
      name,
      source,
      schema: testSchema,
      database: {
        client: {
          name: 'mine',
          query: async (tx, sql, params) => (await tx.run(sql, [...params])) as Record<string, unknown>[],
        },
        async transaction(work) {
          const client = await pool.connect()
          try {
            await client.query('BEGIN')
            const result = await work({ run: async (sql, params) => (await client.query(sql, params)).rows })
            await client.query('COMMIT')
            return result
          } catch (error) {
            await client.query('ROLLBACK')
            throw error
          } finally {
            client.release()
          }
        },
      },
      handlers: { '*': ({ event, tx }) => tx.run(write, [event.id]) },
    })
    atEndOfFile(() => consumer.stop().then(() => undefined))
    await consumer.start()
    const message = note()
    expect(await source.deliver(toDelivery(message))).toEqual({ status: 'done' })
    expect(await source.deliver(toDelivery(message))).toEqual({ status: 'done' })
    expect(await writes(message.eventId)).toBe(1)
  })

  test('may be a schema of any name', async () => {
    const other = await createTestDatabase({ schema: `My"Inbox's` })
    const consumer = await testConsumer(other, {
      handlers: { '*': ({ event, effects }) => effects.once(event.id, () => undefined) },
    })
    await consumer.deliver(note(), { redelivered: true })
    expect(await other.rows('SELECT result FROM "waybill".processed_events')).toEqual([{ result: 'applied' }])
    expect(await other.rows('SELECT FROM "waybill".consumer_effects')).toHaveLength(1)
  })

  test('must be migrated, or the start says so', async () => {
    const empty = await createTestDatabase({ migrated: false })
    await expect(testConsumer(empty, { handlers: { '*': () => undefined } })).rejects.toMatchObject({
      code: 'SCHEMA_MISSING',
    })
  })

  test.each([
    [{ database: 'mysql://x' }, /expected database to be a URL/],
    [{ database: {} as never }, /expected database to be/],
    [{ handlers: {} }, /at least one event type/],
    [{ handlers: { a: 1 as never } }, /handlers\["a"\]/],
    [{ source: {} as never }, /expected consumer.source/],
    [{ concurency: 3 } as never, /did you mean "consumer.concurrency"/],
  ])('and a mistake in its options is told at once: %j', (changes, words) => {
    const right = {
      name: 'n',
      schema: testSchema,
      database: db.url,
      source: handSource(),
      handlers: { '*': () => undefined },
    }
    expect(() => createConsumer({ ...right, ...(changes as object) })).toThrow(words)
  })
})

describe('two services under one name', () => {
  test('are found out by what they read', async () => {
    const name = randomUUID()
    const handlers = { '*': () => undefined }
    const first = await testConsumer(db, {
      name,
      handlers,
      source: handSource({ subscription: 'queue:billing' }),
    })
    const second = await testConsumer(db, {
      name,
      handlers,
      source: handSource({ subscription: 'queue:mail' }),
    })
    expect(second.events('consumer.conflict')).toMatchObject([
      { consumer: name, subscription: 'queue:billing', here: 'queue:mail', processId: process.pid },
    ])
    expect(first.events('consumer.conflict')).toEqual([])
  })

  test('are found out by their handlers where there is no queue, and two processes of one service are not', async () => {
    const name = randomUUID()
    await testConsumer(db, { name, handlers: { a: () => undefined, b: () => undefined } })
    const same = await testConsumer(db, { name, handlers: { b: () => undefined, a: () => undefined } })
    const other = await testConsumer(db, { name, handlers: { c: () => undefined } })
    expect(same.events('consumer.conflict')).toEqual([])
    expect(other.events('consumer.conflict').map(({ subscription }) => subscription)).toEqual(['a, b'])
  })

  test('that ended are not counted', async () => {
    const name = randomUUID()
    const gone = await testConsumer(db, { name, handlers: { a: () => undefined } })
    await gone.stop()
    const next = await testConsumer(db, { name, handlers: { b: () => undefined } })
    expect(next.events('consumer.conflict')).toEqual([])
  })
})

describe('the dedupe memory', () => {
  const store = () => {
    const opened = openStore(db.url, { schema: testSchema, concurrency: 1, isolation: undefined })
    atEndOfFile(() => opened.close())
    return opened
  }
  const clean = (consumer: string) =>
    cleanDedupeMemory({
      ...{ store: store(), schema: testSchema, consumer, dedupeDays: 30 },
      signal: new AbortController().signal,
    })
  const beat = (consumer: string) =>
    createRegistration({
      ...{
        store: store(),
        schema: testSchema,
        consumer,
        instanceId: randomUUID(),
        subscription: null,
        handlers: [],
      },
    }).beat()
  const remember = (consumer: string, id: string, days: number) =>
    db.query(
      `INSERT INTO "waybill".processed_events (consumer, event_id, result, processed_at)
       VALUES ($1, $2, 'applied', now() - $3 * interval '1 day')`,
      [consumer, id, days],
    )
  const remembered = async (consumer: string) =>
    (
      await db.rows('SELECT event_id FROM "waybill".processed_events WHERE consumer = $1 ORDER BY event_id', [
        consumer,
      ])
    ).map((row) => row['event_id'] as string)
  const seen = (consumer: string, changes: string) =>
    db.query(`UPDATE "waybill".consumers SET ${changes} WHERE consumer = $1`, [consumer])

  test('is cleaned of what is older than it has to be, and of nothing that is kept whole', async () => {
    const name = randomUUID()
    await beat(name)
    await seen(name, `resumed_at = now() - interval '2 days'`)
    await remember(name, 'old', 31)
    await remember(name, 'kept', 31)
    await remember(name, 'young', 29)
    await remember(`${name} other`, 'old', 31)
    await db.query(
      `INSERT INTO "waybill".consumer_messages (consumer, event_id, state, delivery, body) VALUES ($1, 'kept', 'dead', '{}', '')`,
      [name],
    )
    await db.query(
      `INSERT INTO "waybill".consumer_effects (consumer, effect_key, event_id, done_at)
       VALUES ($1, 'old', 'old', now() - interval '31 days'), ($1, 'young', 'young', now())`,
      [name],
    )
    expect(await clean(name)).toBe(2)
    expect(await remembered(name)).toEqual(['kept', 'young'])
    expect(await remembered(`${name} other`)).toEqual(['old'])
  })

  test('is not cleaned on the first day, nor after a long stop until the consumer was at work as long', async () => {
    const name = randomUUID()
    await beat(name)
    await remember(name, 'old', 100)
    expect(await clean(name)).toBe(0)
    // Stopped for twenty days: what was under way then may come only now.
    await seen(name, `resumed_at = now() - interval '50 days', seen_at = now() - interval '20 days'`)
    await beat(name)
    expect(await clean(name)).toBe(0)
    await seen(name, `resumed_at = now() - interval '19 days', seen_at = now()`)
    await beat(name)
    expect(await clean(name)).toBe(0)
    await seen(name, `resumed_at = now() - interval '21 days', seen_at = now()`)
    await beat(name)
    expect(await clean(name)).toBe(1)
  })

  test('counts a second long stop before the first was made good', async () => {
    const name = randomUUID()
    await beat(name)
    await seen(name, `seen_at = now() - interval '10 days', resumed_at = now() - interval '60 days'`)
    await beat(name)
    await seen(name, `seen_at = now() - interval '5 days', resumed_at = now() - interval '6 days'`)
    await beat(name)
    const [row] = await db.rows(
      `SELECT extract(epoch FROM stopped_for) / 86400 > 14.9 AS both FROM "waybill".consumers WHERE consumer = $1`,
      [name],
    )
    expect(row).toEqual({ both: true })
  })

  test('goes in chunks, whatever the number', async () => {
    const name = randomUUID()
    await beat(name)
    await seen(name, `resumed_at = now() - interval '2 days'`)
    await db.query(
      `INSERT INTO "waybill".processed_events (consumer, event_id, result, processed_at)
       SELECT $1, 'e' || i, 'applied', now() - interval '40 days' FROM generate_series(1, 2500) AS i`,
      [name],
    )
    expect(await clean(name)).toBe(2_500)
    expect(await remembered(name)).toEqual([])
  })
})
