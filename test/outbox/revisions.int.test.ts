import type pg from 'pg'
import { afterEach, beforeAll, describe, expect, test } from 'vitest'
import { pg as pgClient } from '../../src/clients/pg.ts'
import { type OutboxEvent, createOutbox } from '../../src/index.ts'
import { type TestDatabase, createTestDatabase, waitsForLock } from '../support/postgres.ts'
import { testSchema } from '../support/target.ts'

let db: TestDatabase
let one: pg.Client
let two: pg.Client
const outbox = createOutbox({ client: pgClient(), schema: testSchema })

beforeAll(async () => {
  db = await createTestDatabase()
  one = await db.connect()
  two = await db.connect()
})
afterEach(async () => {
  await one.query('ROLLBACK')
  await two.query('ROLLBACK')
  await db.query('TRUNCATE "waybill".outbox_events, "waybill".publication_heads')
})

const note = (id: string, revision: bigint | number, changes: Partial<OutboxEvent> = {}): OutboxEvent => ({
  type: 'note.published',
  aggregate: ['note', id],
  payload: { id },
  revision,
  ...changes,
})

const inTransaction = async <T>(client: pg.Client, work: () => Promise<T>): Promise<T> => {
  await client.query('BEGIN')
  try {
    return await work()
  } finally {
    await client.query('COMMIT')
  }
}
const publish = (client: pg.Client, ...events: OutboxEvent[]) =>
  inTransaction(client, () => outbox.publish(client, events))

const intents = async () =>
  (
    await db.rows(
      'SELECT aggregate_id, revision, intent_scope FROM "waybill".outbox_events WHERE revision IS NOT NULL ORDER BY position',
    )
  ).map((row) => `${row.aggregate_id}:${row.revision}${row.intent_scope && `#${row.intent_scope}`}`)
const heads = async () =>
  (
    await db.rows(
      'SELECT aggregate_id, revision, intent_scope FROM "waybill".publication_heads ORDER BY 1, 3',
    )
  ).map((row) => `${row.aggregate_id}:${row.revision}${row.intent_scope && `#${row.intent_scope}`}`)

/** Resolves when this session waits for a lock. */
async function untilWaiting(client: pg.Client): Promise<void> {
  const pid = (client as unknown as { processID: number }).processID
  for (;;) {
    const [row] = await db.rows(`SELECT FROM pg_stat_activity WHERE pid = $1 AND ${waitsForLock}`, [pid])
    if (row !== undefined) return
  }
}

describe('a revision', () => {
  test('is an intent, and becomes the head of its aggregate', async () => {
    const [written] = await publish(one, note('n', 2n ** 63n - 1n, { operationId: 'r-1' }))
    const [row] = await db.rows('SELECT * FROM "waybill".publication_intents')
    expect(row).toMatchObject({
      intent_key: 'n:9223372036854775807',
      revision: '9223372036854775807',
      status: 'pending',
      event_id: written!.id,
    })
    const [head] = await db.rows('SELECT * FROM "waybill".publication_heads')
    expect(head).toMatchObject({
      aggregate_type: 'note',
      revision: '9223372036854775807',
      event_id: written!.id,
    })
  })

  test('above the newest is published, also with a gap; the head forgets when the older one was relayed', async () => {
    await publish(one, note('n', 0))
    await db.query('UPDATE "waybill".publication_heads SET relayed_at = now(), relayed_revision = 0')
    await publish(one, note('n', 5))
    expect(await intents()).toEqual(['n:0', 'n:5'])
    const [head] = await db.rows('SELECT relayed_at, relayed_revision FROM "waybill".publication_heads')
    expect(head).toEqual({ relayed_at: null, relayed_revision: '0' })
  })

  test.each([
    [
      'equal to the newest',
      5,
      /^revision 5 of "note" "n" was published before: nothing of this call was written/,
    ],
    ['below the newest', 4, /^revision 4 of "note" "n" is below the newest published one, 5: nothing/],
  ])('%s is a conflict that leaves the transaction usable', async (_, revision, message) => {
    await publish(one, note('n', 5))
    await one.query('BEGIN')
    await expect(outbox.publish(one, [note('m', 1), note('n', revision)])).rejects.toMatchObject({
      code: 'REVISION_CONFLICT',
      message: expect.stringMatching(message),
      details: { aggregate: ['note', 'n'], revision: BigInt(revision), newest: 5n, index: 1, scope: '' },
    })
    await outbox.publish(one, note('n', 6))
    await one.query('COMMIT')
    expect(await intents()).toEqual(['n:5', 'n:6'])
    expect(await heads()).toEqual(['n:6'])
  })

  test('has an independent life in each scope', async () => {
    await publish(one, note('n', 3), note('n', 3, { scope: 'search' }))
    await publish(one, note('n', 2, { scope: 'mail 😀' }))
    await expect(publish(one, note('n', 3, { scope: 'search' }))).rejects.toThrow(/in the scope "search"/)
    expect(await intents()).toEqual(['n:3', 'n:3#search', 'n:2#mail 😀'])
    const keys = await db.rows('SELECT intent_key FROM "waybill".publication_intents ORDER BY 1')
    expect(keys.map((row) => row.intent_key)).toEqual(['n:2#mail 😀', 'n:3', 'n:3#search'])
  })

  test('stays known after its row is gone', async () => {
    await publish(one, note('n', 3))
    await db.query('DELETE FROM "waybill".outbox_events')
    await expect(publish(one, note('n', 3))).rejects.toMatchObject({ code: 'REVISION_CONFLICT' })
  })

  test('that a plain INSERT wrote without a head is a conflict too', async () => {
    await db.query(`INSERT INTO "waybill".outbox_events (aggregate_type, aggregate_id, event_type, payload, revision)
      VALUES ('note', 'n', 'note.published', '{}', 7)`)
    await one.query('BEGIN')
    await expect(outbox.publish(one, [note('m', 1), note('n', 7)])).rejects.toMatchObject({
      code: 'REVISION_CONFLICT',
      details: { revision: 7n, newest: 7n, index: 1 },
    })
    await outbox.publish(one, note('n', 8))
    await one.query('COMMIT')
    expect(await heads()).toEqual(['n:8'])
  })

  test('cannot be used twice by an id: that is an error of the database', async () => {
    const [{ id } = { id: '' }] = await publish(one, note('n', 1))
    await expect(publish(one, note('n', 2, { id }))).rejects.toMatchObject({
      code: '23505',
      constraint: 'outbox_events_pkey',
    })
    expect(await heads()).toEqual(['n:1'])
  })
})

describe('a batch', () => {
  test('mixes events with and without a revision, in the order of the call', async () => {
    const plain = { type: 'note.read', aggregate: ['note', 'n'] as const, payload: null }
    const written = await publish(one, plain, note('z', 1), note('a', 1), plain, note('a', 2))
    const rows = await db.rows('SELECT id, payload::text FROM "waybill".outbox_events ORDER BY position')
    expect(rows.map((row) => row.id)).toEqual(written.map(({ id }) => id))
    expect(rows[0]!.payload).toBe('null')
    expect(await heads()).toEqual(['a:2', 'z:1'])
  })

  test('with a conflict inside itself writes nothing', async () => {
    for (const [first, second] of [
      [2, 2],
      [2, 1],
    ] as const) {
      await expect(publish(one, note('m', 1), note('n', first), note('n', second))).rejects.toMatchObject({
        code: 'REVISION_CONFLICT',
        details: { index: 2, revision: BigInt(second), newest: 2n },
      })
    }
    expect(await intents()).toEqual([])
    expect(await heads()).toEqual([])
  })
})

describe('the same call repeated inside the same transaction', () => {
  test('is a no-op that answers the id of the event that is there', async () => {
    await one.query('BEGIN')
    const first = await outbox.publish(one, note('n', 1))
    const again = await outbox.publish(one, note('n', 1))
    expect(again).toEqual({ id: first.id, written: false })
    await outbox.publish(one, note('n', 2))
    expect(await outbox.publish(one, [note('n', 1), note('n', 3)])).toEqual([
      { id: first.id, written: false },
      { id: expect.not.stringMatching(first.id), written: true },
    ])
    await one.query('COMMIT')
    expect(await intents()).toEqual(['n:1', 'n:2', 'n:3'])
  })

  test('is a no-op although it stands in a savepoint', async () => {
    await one.query('BEGIN')
    const first = await outbox.publish(one, note('n', 1))
    await one.query('SAVEPOINT s')
    expect(await outbox.publish(one, note('n', 1))).toEqual({ id: first.id, written: false })
    await one.query('COMMIT')
  })

  test.each<[what: string, changes: Partial<OutboxEvent>]>([
    ['payload', { payload: { id: 'other' } }],
    ['type', { type: 'note.hidden' }],
  ])('with another %s is a conflict', async (_, changes) => {
    await one.query('BEGIN')
    await outbox.publish(one, note('n', 1))
    await expect(outbox.publish(one, note('n', 1, changes))).rejects.toMatchObject({
      code: 'REVISION_CONFLICT',
    })
    await one.query('COMMIT')
    expect(await intents()).toEqual(['n:1'])
  })

  test('in another transaction is a conflict', async () => {
    await publish(one, note('n', 1))
    await expect(publish(one, note('n', 1))).rejects.toMatchObject({ code: 'REVISION_CONFLICT' })
  })

  test('after a savepoint took it back writes it', async () => {
    await publish(one, note('n', 1))
    await one.query('BEGIN')
    await one.query('SAVEPOINT s')
    await outbox.publish(one, note('n', 2))
    await one.query('ROLLBACK TO SAVEPOINT s')
    expect(await outbox.publish(one, note('n', 2))).toMatchObject({ written: true })
    await one.query('COMMIT')
    expect(await intents()).toEqual(['n:1', 'n:2'])
    expect(await heads()).toEqual(['n:2'])
  })
})

describe('two transactions', () => {
  test('that write the first revision of an aggregate at once: the second waits, and is a conflict', async () => {
    await one.query('BEGIN')
    await two.query('BEGIN')
    await outbox.publish(one, note('n', 1))
    const second = outbox.publish(two, note('n', 1)).catch((error: unknown) => error)
    await untilWaiting(two)
    await one.query('COMMIT')
    expect(await second).toMatchObject({ code: 'REVISION_CONFLICT', details: { newest: 1n } })
    await outbox.publish(two, note('n', 2))
    await two.query('COMMIT')
    expect(await intents()).toEqual(['n:1', 'n:2'])
  })

  test('of which the first rolls back: the second writes', async () => {
    await one.query('BEGIN')
    await two.query('BEGIN')
    await outbox.publish(one, note('n', 1))
    const second = outbox.publish(two, note('n', 1))
    await untilWaiting(two)
    await one.query('ROLLBACK')
    expect(await second).toMatchObject({ written: true })
    await two.query('COMMIT')
    expect(await intents()).toEqual(['n:1'])
  })

  test('whose positions follow their revisions, however they interleave', async () => {
    await one.query('BEGIN')
    await two.query('BEGIN')
    await outbox.publish(one, note('n', 1))
    const second = outbox.publish(two, note('n', 2))
    await untilWaiting(two)
    await one.query('COMMIT')
    await second
    await two.query('COMMIT')
    expect(await intents()).toEqual(['n:1', 'n:2'])
  })

  test('with batches in opposite order never deadlock', async () => {
    const ids = Array.from({ length: 40 }, (_, n) => `n-${n}`)
    for (let round = 1; round <= 20; round++) {
      const batch = (order: string[]) => order.map((id) => note(id, round))
      const outcomes = await Promise.allSettled([
        publish(one, ...batch(ids)),
        publish(two, ...batch(ids.toReversed())),
      ])
      const states = outcomes.map((o) => (o.status === 'fulfilled' ? 'written' : String(o.reason.code)))
      expect(new Set(states)).toEqual(new Set(['REVISION_CONFLICT', 'written']))
    }
    expect(await intents()).toHaveLength(800)
  })

  test('in REPEATABLE READ get the serialisation failure of PostgreSQL, with its code', async () => {
    await publish(one, note('n', 1))
    await two.query('BEGIN ISOLATION LEVEL REPEATABLE READ')
    await two.query('SELECT 1')
    await publish(one, note('n', 2))
    await expect(outbox.publish(two, note('n', 3))).rejects.toMatchObject({ code: '40001' })
  })
})
