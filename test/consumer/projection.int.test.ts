import { randomUUID } from 'node:crypto'
import { beforeAll, describe, expect, test } from 'vitest'
import { projection } from '../../src/consumer/index.ts'
import type { Message } from '../../src/publishing/publisher.ts'
import { type TestDatabase, createTestDatabase } from '../support/postgres.ts'
import { testSchema } from '../support/target.ts'
import { note, testConsumer } from './harness.ts'

let db: TestDatabase
beforeAll(async () => {
  db = await createTestDatabase()
  await db.query(
    `CREATE TABLE public_notes (projection text, id text, revision bigint, PRIMARY KEY (projection, id));
     CREATE TABLE history (projection text, id text, revision bigint, at int GENERATED ALWAYS AS IDENTITY)`,
  )
})

/** A consumer with one projection that keeps the newest row and writes down what it applied. */
async function projecting(mode: 'latest' | 'contiguous', options: object = {}) {
  const notes = projection({ name: `notes-${randomUUID()}`, mode, schema: testSchema, ...options })
  const consumer = await testConsumer(db, {
    maxAttempts: 3,
    handlers: {
      'note.published': ({ event, tx }) =>
        notes.apply(tx, event, async () => {
          const values = [notes.name, event.aggregateId, String(event.revision)]
          await tx.query('INSERT INTO history (projection, id, revision) VALUES ($1, $2, $3)', values)
          await tx.query(
            `INSERT INTO public_notes VALUES ($1, $2, $3)
             ON CONFLICT (projection, id) DO UPDATE SET revision = excluded.revision`,
            values,
          )
        }),
      'note.deleted': async ({ event, tx }) => {
        await notes.apply(tx, event, () =>
          tx.query('DELETE FROM public_notes WHERE projection = $1 AND id = $2', [
            notes.name,
            event.aggregateId,
          ]),
        )
        await notes.forget(tx, [event.aggregateType, event.aggregateId])
      },
    },
  })
  const numbersOf = async (table: string, id: string) =>
    (
      await db.rows(
        `SELECT revision::int FROM ${table} WHERE projection = $1 AND id = $2 ORDER BY ${table === 'history' ? 'at' : 'id'}`,
        [notes.name, id],
      )
    ).map((row) => row['revision'] as number)
  return {
    notes,
    consumer,
    applied: (id: string) => numbersOf('history', id),
    shown: async (id: string) => (await numbersOf('public_notes', id))[0],
    results: async (id: string) =>
      db.rows(
        `SELECT revision::int, result, error FROM "waybill".processed_events
         WHERE consumer = $1 AND aggregate_id = $2 ORDER BY processed_at`,
        [consumer.name, id],
      ),
  }
}

const revision = (aggregateId: string, n: number, changes: Partial<Message> = {}) =>
  note({ aggregateId, revision: String(n), ...changes })

function permutations<T>(items: readonly T[]): T[][] {
  if (items.length <= 1) return [[...items]]
  return items.flatMap((item, i) =>
    permutations([...items.slice(0, i), ...items.slice(i + 1)]).map((rest) => [item, ...rest]),
  )
}
const all = permutations([1, 2, 3, 4, 5])

describe('the newest revision', () => {
  test('wins, whichever comes first: 7, 5, 6', async () => {
    const { consumer, shown, applied, results } = await projecting('latest')
    for (const n of [7, 5, 6]) expect(await consumer.deliver(revision('n-42', n))).toEqual({ status: 'done' })
    expect(await shown('n-42')).toBe(7)
    expect(await applied('n-42')).toEqual([7])
    expect(await results('n-42')).toMatchObject([
      { revision: 7, result: 'applied', error: null },
      {
        revision: 5,
        result: 'stale',
        error: expect.stringMatching(/has revision 7, newer than 5/) as string,
      },
      { revision: 6, result: 'stale' },
    ])
    expect(consumer.events('consumer.failed')).toEqual([])
  })

  test('is applied once when it comes under another event id', async () => {
    const { consumer, applied, results } = await projecting('latest')
    const first = revision('n-1', 7)
    await consumer.deliver(first)
    await consumer.deliver(revision('n-1', 7))
    expect(await applied('n-1')).toEqual([7])
    expect((await results('n-1'))[1]).toMatchObject({
      ...{ result: 'stale', error: expect.stringContaining(`by the event ${first.eventId}`) as string },
    })
  })

  test('wins in every order of five with duplicates', { timeout: 120_000 }, async () => {
    const { consumer, shown, applied } = await projecting('latest')
    await Promise.all(
      all.map(async (order, i) => {
        const messages = order.map((n) => revision(`p-${i}`, n))
        for (const message of messages) await consumer.deliver(message)
        // The same messages again, and the same revisions under other ids.
        for (const n of order) await consumer.deliver(revision(`p-${i}`, n))
        for (const message of messages.toReversed()) await consumer.deliver(message)
      }),
    )
    for (const [i, order] of all.entries()) {
      expect(await shown(`p-${i}`)).toBe(5)
      const rising = order.filter((n, at) => order.slice(0, at).every((before) => before < n))
      expect(await applied(`p-${i}`)).toEqual(rising)
    }
  })

  test('wins when all come at once to two processes', async () => {
    const { consumer, notes, shown } = await projecting('latest')
    const second = await testConsumer(db, {
      name: consumer.name,
      handlers: {
        '*': ({ event, tx }) =>
          notes.apply(tx, event, () =>
            tx.query(
              `INSERT INTO public_notes VALUES ($1, $2, $3)
               ON CONFLICT (projection, id) DO UPDATE SET revision = excluded.revision`,
              [notes.name, event.aggregateId, String(event.revision)],
            ),
          ),
      },
    })
    const messages = Array.from({ length: 20 }, (_, i) => revision('race', i + 1))
    await Promise.all(
      messages
        .toSorted(() => Math.random() - 0.5)
        .map((message, i) => [consumer, second][i % 2]!.deliver(message)),
    )
    expect(await shown('race')).toBe(20)
  })

  test('of an aggregate that was deleted and made again begins from the start', async () => {
    const { consumer, shown, applied } = await projecting('latest')
    await consumer.deliver(revision('again', 7))
    await consumer.deliver(revision('again', 8, { eventType: 'note.deleted' }))
    expect(await shown('again')).toBeUndefined()
    await consumer.deliver(revision('again', 1))
    expect(await shown('again')).toBe(1)
    expect(await applied('again')).toEqual([7, 1])
  })

  test('of an aggregate that was deleted and not forgotten does not come back by a late one', async () => {
    const { consumer, notes } = await projecting('latest')
    await consumer.deliver(revision('gone', 8))
    await consumer.deliver(revision('gone', 3))
    expect(await notes.revision(db.client, ['note', 'gone'])).toBe(8n)
  })
})

describe('a write of a projection', () => {
  test('that fails takes the revision back, even when the handler swallows the error', async () => {
    const notes = projection({ name: `notes-${randomUUID()}`, schema: testSchema })
    let broken = true
    const consumer = await testConsumer(db, {
      handlers: {
        '*': async ({ event, tx }) => {
          await notes
            .apply(tx, event, () => {
              if (broken) throw new Error('the first time')
            })
            .catch(() => undefined)
          broken = false
        },
      },
    })
    await consumer.deliver(revision('x', 3))
    expect(consumer.events('consumer.failed')).toMatchObject([{ error: 'the first time' }])
    expect(await notes.revision(db.client, ['note', 'x'])).toBe(3n)
  })

  test('for an event without a revision is refused with what to do', async () => {
    const { consumer } = await projecting('latest')
    await consumer.deliver(note())
    expect(consumer.events('consumer.dead')[0]?.error).toMatch(/has no revision.*publish it with one/)
  })
})

describe('without gaps', () => {
  test(
    'each revision is applied in turn, in every order of five with duplicates',
    { timeout: 180_000 },
    async () => {
      const { consumer, applied, shown } = await projecting('contiguous')
      await Promise.all(
        all.map(async (order, i) => {
          const messages = order.map((n) => revision(`c-${i}`, n))
          for (const message of messages) {
            await consumer.deliver(message)
            await consumer.deliver(message)
          }
          for (const n of order) await consumer.deliver(revision(`c-${i}`, n))
        }),
      )
      for (const i of all.keys()) {
        expect(await applied(`c-${i}`)).toEqual([1, 2, 3, 4, 5])
        expect(await shown(`c-${i}`)).toBe(5)
      }
      const kept = await db.rows('SELECT FROM "waybill".consumer_messages WHERE consumer = $1', [
        consumer.name,
      ])
      expect(kept).toEqual([])
    },
  )

  test('an early one is parked, told, and leaves nothing of its handler behind', async () => {
    const { consumer, results, applied } = await projecting('contiguous', { firstRevision: 5 })
    await consumer.deliver(revision('n', 7))
    expect(await applied('n')).toEqual([])
    expect(await results('n')).toMatchObject([{ revision: 7, result: 'parked' }])
    expect(consumer.events('consumer.parked')).toMatchObject([{ aggregateId: 'n', attempt: 1 }])
    await consumer.deliver(revision('n', 5))
    await consumer.deliver(revision('n', 6))
    expect(await applied('n')).toEqual([5, 6, 7])
    expect((await results('n')).map((row) => row['result'])).toEqual(['applied', 'applied', 'applied'])
  })

  test('an early one goes on after another process filled the gap and died', async () => {
    const { consumer, notes, applied } = await projecting('contiguous')
    await consumer.deliver(revision('d', 2))
    // What a process does that ends right after its commit: nothing releases the parked one.
    await db.query(
      `INSERT INTO "waybill".projection_revisions (projection, aggregate_type, aggregate_id, revision, event_id)
       VALUES ($1, 'note', 'd', 1, 'x')`,
      [notes.name],
    )
    await consumer.until('consumer.handled', ({ aggregateId }) => aggregateId === 'd')
    expect(await applied('d')).toEqual([2])
  })

  test('one that is too far ahead is no longer parked but fails', async () => {
    const { consumer } = await projecting('contiguous', { maxParked: 3 })
    await consumer.deliver(revision('far', 4))
    await consumer.deliver(revision('far', 5))
    expect(consumer.events('consumer.parked')).toHaveLength(1)
    expect(consumer.events('consumer.dead')[0]?.error).toMatch(/more than 3 ahead of 1/)
  })
})
