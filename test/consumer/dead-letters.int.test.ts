import { beforeAll, describe, expect, test } from 'vitest'
import { type TestDatabase, createTestDatabase } from '../support/postgres.ts'
import { deferred, handSource, note, testConsumer } from './harness.ts'

let db: TestDatabase
beforeAll(async () => {
  db = await createTestDatabase()
  await db.query('CREATE TABLE done (event_id text)')
})

const dead = (consumer: string) =>
  db.rows(
    `SELECT d.event_id, d.event_type, d.aggregate_id, d.attempts, d.error, d.origin, p.result
     FROM "waybill".consumer_dead_letters AS d JOIN "waybill".processed_events AS p USING (consumer, event_id)
     WHERE d.consumer = $1 ORDER BY d.created_at`,
    [consumer],
  )
const putBack = (consumer: string) =>
  db.query(
    `UPDATE "waybill".consumer_messages SET state = 'retry', attempts = 0, crashes = 0 WHERE consumer = $1 AND state = 'dead'`,
    [consumer],
  )

describe('after the last try', () => {
  test('a message is a dead letter with its reason, and the next of its aggregate goes on', async () => {
    const order: string[] = []
    const consumer = await testConsumer(db, {
      maxAttempts: 3,
      handlers: {
        '*': ({ event }) => {
          order.push(`${event.id} ${String(event.payload)}`)
          if (event.payload === 1) throw new Error('the shelf is full')
        },
      },
    })
    const bad = note({ aggregateId: 'n-1', body: '1' })
    const good = note({ aggregateId: 'n-1', body: '2' })
    const answers = await Promise.all([consumer.deliver(bad), consumer.deliver(good)])
    expect(answers).toEqual([{ status: 'done' }, { status: 'done' }])
    expect(order).toEqual([...Array<string>(3).fill(`${bad.eventId} 1`), `${good.eventId} 2`])
    expect(await dead(consumer.name)).toEqual([
      {
        ...{ event_id: bad.eventId, event_type: 'note.published', aggregate_id: 'n-1', attempts: 3 },
        ...{ error: 'the shelf is full', origin: `hand:${bad.eventId}`, result: 'rejected' },
      },
    ])
    expect(consumer.events('consumer.dead')).toMatchObject([{ eventId: bad.eventId, attempt: 3 }])
    // It comes again: a dead letter is not tried until somebody says so.
    await consumer.deliver(bad)
    expect(order).toHaveLength(4)
  })

  test('it is handled when somebody puts it back, with the same body and headers', async () => {
    let broken = true
    const seen: unknown[] = []
    const consumer = await testConsumer(db, {
      maxAttempts: 1,
      handlers: {
        '*': async ({ event, tx }) => {
          if (broken) throw new Error('no')
          seen.push([event.body, event.headers, event.revision])
          await tx.query('INSERT INTO done VALUES ($1)', [event.id])
        },
      },
    })
    const message = note({ body: '{"n": 1.10}', headers: { 'x-a': 'ü' }, revision: '3' })
    await consumer.deliver(message)
    broken = false
    await putBack(consumer.name)
    await consumer.until('consumer.handled', ({ result }) => result === 'applied')
    expect(seen).toEqual([['{"n": 1.10}', { 'x-a': 'ü' }, 3n]])
    expect(await dead(consumer.name)).toEqual([])
    const [row] = await db.rows('SELECT result, error FROM "waybill".processed_events WHERE event_id = $1', [
      message.eventId,
    ])
    expect(row).toEqual({ result: 'applied', error: null })
    await consumer.deliver(message)
    expect(seen).toHaveLength(1)
  })

  test('it is handled by one of two processes that are told to', async () => {
    let broken = true
    const handlers = {
      '*': async ({ event, tx }: any) => {
        if (broken) throw new Error('no')
        await tx.query('INSERT INTO done VALUES ($1)', [event.id])
      },
    }
    const first = await testConsumer(db, { maxAttempts: 1, handlers })
    await testConsumer(db, { maxAttempts: 1, name: first.name, handlers })
    const messages = Array.from({ length: 20 }, () => note())
    for (const message of messages) await first.deliver(message)
    broken = false
    await putBack(first.name)
    await expect.poll(() => dead(first.name), { timeout: 20_000 }).toEqual([])
    const ids = messages.map(({ eventId }) => eventId).sort()
    const rows = await db.rows('SELECT event_id FROM done WHERE event_id = ANY($1) ORDER BY event_id', [ids])
    expect(rows.map((row) => row['event_id'])).toEqual(ids)
  })

  test('it is dead again when it fails again', async () => {
    const consumer = await testConsumer(db, {
      maxAttempts: 2,
      handlers: {
        '*': () => {
          throw new Error('never')
        },
      },
    })
    await consumer.deliver(note())
    await putBack(consumer.name)
    await consumer.until('consumer.dead', () => consumer.events('consumer.dead').length === 2)
    expect(await dead(consumer.name)).toMatchObject([{ attempts: 2, error: 'never' }])
  })

  test('a deliberate replay of the producer is a new chance, each number once', async () => {
    let broken = true
    let tries = 0
    const consumer = await testConsumer(db, {
      maxAttempts: 1,
      handlers: {
        '*': () => {
          tries++
          if (broken) throw new Error('no')
        },
      },
    })
    const message = note()
    const replay = (n: number) => ({ ...message, messageId: `${message.eventId}.r${n}`, replay: n })
    await consumer.deliver(message)
    await consumer.deliver(replay(1))
    await consumer.deliver(replay(1))
    expect(tries).toBe(2)
    broken = false
    await consumer.deliver(replay(2))
    await consumer.deliver(replay(3))
    expect(tries).toBe(3)
    expect(await dead(consumer.name)).toEqual([])
  })
})

describe('a message that is no event', () => {
  test.each<[what: string, delivery: object, error: RegExp]>([
    ['without an id', { headers: [['eventType', 'note.published']] }, /has no id/],
    ['in a foreign format', { headers: [], body: '<note/>', contentType: 'text/xml' }, /has no id/],
    ['with a broken payload', { body: '{"half": ' }, /no JSON/],
    ['with bytes that no text has', { body: new Uint8Array([0, 255, 254]) }, /no UTF-8/],
  ])('(%s) is a dead letter at once, whole', async (_what, changes, error) => {
    const consumer = await testConsumer(db, { handlers: { '*': () => undefined } })
    expect(await consumer.deliver(note(), changes)).toEqual({ status: 'done' })
    expect(await consumer.deliver(note(), changes)).toEqual({ status: 'done' })
    const letters = await dead(consumer.name)
    expect(letters[0]).toMatchObject({ error: expect.stringMatching(error) as string, result: 'rejected' })
    const [kept] = await db.rows('SELECT body FROM "waybill".consumer_messages WHERE consumer = $1', [
      consumer.name,
    ])
    if ('body' in changes) expect(kept!['body']).toEqual(Buffer.from(changes.body as never))
    expect(consumer.events('consumer.invalid')).not.toHaveLength(0)
  })

  test('is made an event by a function of the user, or left out', async () => {
    const seen: unknown[] = []
    const consumer = await testConsumer(db, {
      decode: ({ body, origin }) =>
        body === 'noise'
          ? null
          : {
              ...{
                id: String(body),
                type: 'x',
                aggregateType: 'x',
                aggregateId: '1',
                payload: null,
                body: '',
              },
              ...{ revision: null, operationId: null, createdAt: null, headers: {}, replay: null, origin },
            },
      handlers: { x: ({ event }) => void seen.push(event.id) },
    })
    await consumer.deliver(note(), { body: 'noise' })
    await consumer.deliver(note(), { body: 'one' })
    await consumer.deliver(note(), { body: 'one' })
    expect(seen).toEqual(['one'])
  })
})

describe('an event of a type without a handler', () => {
  test('is left out and told once', async () => {
    const consumer = await testConsumer(db, { handlers: { other: () => undefined } })
    expect(await consumer.deliver(note())).toEqual({ status: 'done' })
    expect(await consumer.deliver(note())).toEqual({ status: 'done' })
    expect(consumer.events('consumer.skipped')).toEqual([
      { consumer: consumer.name, eventType: 'note.published' },
    ])
    expect(
      await db.rows('SELECT FROM "waybill".processed_events WHERE consumer = $1', [consumer.name]),
    ).toEqual([])
  })

  test('is a dead letter where that is wanted', async () => {
    const consumer = await testConsumer(db, { unknownTypes: 'reject', handlers: { other: () => undefined } })
    await consumer.deliver(note())
    expect(await dead(consumer.name)).toMatchObject([
      { error: 'there is no handler for the type note.published' },
    ])
  })
})

describe('an event under which the process died before', () => {
  const died = (consumer: string, id: string, crashes: number) =>
    db.query(
      `INSERT INTO "waybill".consumer_messages (consumer, event_id, state, crashes, created_at, changed_at)
       VALUES ($1, $2, 'failing', $3, now() - interval '1 day', now() - interval '1 day')`,
      [consumer, id, crashes],
    )
  const deaths = async (id: string) =>
    (await db.rows('SELECT crashes FROM "waybill".consumer_messages WHERE event_id = $1', [id]))[0]?.[
      'crashes'
    ] as number | undefined

  const noted = async (id: string) =>
    (
      await db.rows(
        `SELECT changed_at > created_at + interval '1 hour' AS noted FROM "waybill".consumer_messages WHERE event_id = $1`,
        [id],
      )
    )[0]!['noted'] as boolean

  test('twice is tried alone, and no death of another is put down to it while it waits', async () => {
    const busy = deferred()
    const go = deferred()
    const order: string[] = []
    const consumer = await testConsumer(db, {
      handlers: {
        '*': async ({ event }) => {
          order.push(`${event.aggregateId} begins`)
          if (event.aggregateId === 'other') {
            busy.resolve()
            await go.promise
          } else expect(await deaths(event.id)).toBe(3)
          order.push(`${event.aggregateId} ends`)
        },
      },
    })
    const suspect = note({ aggregateId: 'suspect' })
    await died(consumer.name, suspect.eventId, 2)
    const other = consumer.deliver(note({ aggregateId: 'other' }))
    await busy.promise
    const answer = consumer.deliver(suspect, { redelivered: true })
    // Noted, found out to have to wait, and taken back: each has changed the row, the note its time as well.
    await expect.poll(() => noted(suspect.eventId), { timeout: 10_000 }).toBe(true)
    await expect.poll(() => deaths(suspect.eventId), { timeout: 10_000 }).toBe(2)
    go.resolve()
    expect(await Promise.all([other, answer])).toEqual([{ status: 'done' }, { status: 'done' }])
    expect(order).toEqual(['other begins', 'other ends', 'suspect begins', 'suspect ends'])
    expect(await deaths(suspect.eventId)).toBeUndefined()
  })

  test('after its commit leaves no note of its try, once the message comes again', async () => {
    const consumer = await testConsumer(db, { handlers: { '*': () => undefined } })
    const message = note()
    await consumer.deliver(message)
    // As it stays behind when the process ends before it has forgotten it.
    await died(consumer.name, message.eventId, 1)
    await consumer.deliver(message, { redelivered: true })
    expect(consumer.events('consumer.handled').map(({ result }) => result)).toEqual(['applied', 'duplicate'])
    expect(await deaths(message.eventId)).toBeUndefined()
  })

  test('too often is a dead letter without another try', async () => {
    let tries = 0
    const consumer = await testConsumer(db, { maxAttempts: 5, handlers: { '*': () => void tries++ } })
    const [spared, guilty] = [note(), note()]
    await died(consumer.name, spared.eventId, 4)
    await died(consumer.name, guilty.eventId, 5)
    await consumer.deliver(spared, { redelivered: true })
    await consumer.deliver(guilty, { redelivered: true })
    expect(tries).toBe(1)
    expect(await dead(consumer.name)).toMatchObject([
      { event_id: guilty.eventId, error: 'the process ended 5 times while this event was handled' },
    ])
  })
})

test('where somebody waits for the answer, a failure is told at once and still counted', async () => {
  let tries = 0
  const consumer = await testConsumer(db, {
    source: handSource({ holding: false }),
    maxAttempts: 3,
    handlers: {
      '*': () => {
        tries++
        throw new Error('no')
      },
    },
  })
  const message = note()
  expect(await consumer.deliver(message)).toMatchObject({
    status: 'again',
    error: { code: 'PUBLISH_FAILED' },
  })
  expect(await consumer.deliver(message)).toMatchObject({ status: 'again' })
  expect(await consumer.deliver(message)).toEqual({ status: 'done' })
  expect(tries).toBe(3)
  expect(await dead(consumer.name)).toMatchObject([{ attempts: 3 }])
})
