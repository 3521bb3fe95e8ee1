import type pg from 'pg'
import { afterEach, beforeAll, describe, expect, test } from 'vitest'
import { pg as pgClient } from '../../src/clients/pg.ts'
import { createOutbox } from '../../src/index.ts'
import { type TestDatabase, createTestDatabase, waitsForLock } from '../support/postgres.ts'
import { testSchema } from '../support/target.ts'

let db: TestDatabase
let one: pg.Client
let two: pg.Client
const outbox = createOutbox({ client: pgClient(), schema: testSchema })
const event = (id: string, changes: object = {}) => ({
  type: 'moved',
  aggregate: ['van', id] as const,
  payload: {},
  ...changes,
})

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

const pidOf = (client: pg.Client) => (client as unknown as { processID: number }).processID
const waits = async (client: pg.Client) =>
  (await db.rows(`SELECT FROM pg_stat_activity WHERE pid = $1 AND ${waitsForLock}`, [pidOf(client)])).length >
  0
const locksOf = async (client: pg.Client) =>
  Number(
    (
      await db.rows("SELECT count(*) FROM pg_locks WHERE pid = $1 AND locktype = 'advisory'", [pidOf(client)])
    )[0]!.count,
  )

/** How the second of two transactions fares that publish for one aggregate, while the first is still open. */
async function second(
  options: { serialise?: boolean },
  events = [event('v')],
): Promise<'waited' | 'went on'> {
  await one.query('BEGIN')
  await two.query('BEGIN')
  await outbox.publish(one, event('v'), options)
  let done = false
  const publishing = outbox.publish(two, events, options).finally(() => (done = true))
  let waited = false
  while (!done && !waited) waited = await waits(two)
  await one.query('COMMIT')
  await publishing
  await two.query('COMMIT')
  return waited ? 'waited' : 'went on'
}

describe('serialise', () => {
  test('off, the default: writers of one aggregate do not wait for each other', async () => {
    expect(await second({})).toBe('went on')
  })

  test('on: the second waits until the first has committed, also with a revision', async () => {
    expect(await second({ serialise: true })).toBe('waited')
    expect(await second({ serialise: true }, [event('v', { revision: 1 })])).toBe('waited')
  })

  test('on: writers of other aggregates go on', async () => {
    expect(await second({ serialise: true }, [event('w')])).toBe('went on')
  })

  test('can be the default of an outbox, and be switched off for one call', async () => {
    const strict = createOutbox({ client: pgClient(), schema: testSchema, serialise: true })
    await one.query('BEGIN')
    await strict.publish(one, event('v'), { serialise: false })
    expect(await locksOf(one)).toBe(0)
    await strict.publish(one, [event('v'), event('w'), event('v')])
    expect(await locksOf(one)).toBe(2)
    await one.query('COMMIT')
    expect(await locksOf(one)).toBe(0)
  })

  test('takes no lock outside a transaction', async () => {
    for (const tried of [event('v'), event('v', { revision: 1 })]) {
      await expect(outbox.publish(one, tried, { serialise: true })).rejects.toMatchObject({
        code: 'NOT_IN_TRANSACTION',
      })
    }
    expect(await locksOf(one)).toBe(0)
  })

  test('locks in one order: batches in opposite order never deadlock', async () => {
    const ids = Array.from({ length: 50 }, (_, n) => `v-${n}`)
    const publish = async (client: pg.Client, order: string[]) => {
      await client.query('BEGIN')
      await outbox.publish(
        client,
        order.map((id) => event(id)),
        { serialise: true },
      )
      await client.query('COMMIT')
    }
    for (let round = 0; round < 30; round++) {
      await Promise.all([publish(one, ids), publish(two, ids.toReversed())])
    }
    const [row] = await db.rows('SELECT count(*)::int AS n FROM "waybill".outbox_events')
    expect(row!.n).toBe(3000)
  })

  test('locks in the order of the keys: while it waits for one it holds all smaller ones and no larger', async () => {
    const ids = Array.from({ length: 30 }, (_, n) => `v-${n}`)
    const keys = await db.rows<{ key: string }>(
      `SELECT hashtextextended(id, hashtextextended('van', 1463898))::text AS key FROM unnest($1::text[]) AS id ORDER BY 1`,
      [ids],
    )
    const sorted = keys.map(({ key }) => BigInt(key)).toSorted((a, b) => (a < b ? -1 : 1))
    await one.query('BEGIN')
    await one.query('SELECT pg_advisory_xact_lock($1)', [String(sorted[20])])
    await two.query('BEGIN')
    const publishing = outbox.publish(
      two,
      ids.map((id) => event(id)),
      { serialise: true },
    )
    while (!(await waits(two)));
    const held = await db.rows<{ key: string }>(
      `SELECT ((classid::bigint << 32) | objid::bigint)::text AS key FROM pg_locks
       WHERE pid = $1 AND locktype = 'advisory' AND granted`,
      [pidOf(two)],
    )
    expect(new Set(held.map(({ key }) => BigInt(key)))).toEqual(new Set(sorted.slice(0, 20)))
    await one.query('COMMIT')
    await publishing
    await two.query('COMMIT')
  })

  test('makes the positions of one aggregate follow the commits', async () => {
    await one.query('BEGIN')
    await two.query('BEGIN')
    await outbox.publish(one, event('v', { payload: 1 }), { serialise: true })
    const publishing = outbox.publish(two, event('v', { payload: 2 }), { serialise: true })
    while (!(await waits(two)));
    const drawn = await db.rows('SELECT last_value::text AS n FROM "waybill".outbox_events_position_seq')
    await one.query('COMMIT')
    await publishing
    await two.query('COMMIT')
    const rows = await db.rows('SELECT payload, position FROM "waybill".outbox_events ORDER BY position')
    expect(rows.map((row) => row.payload)).toEqual([1, 2])
    // The waiting one had not drawn its number yet.
    expect(rows[0]!.position).toBe(drawn[0]!.n)
  })
})
