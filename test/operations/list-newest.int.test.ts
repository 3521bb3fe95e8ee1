import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { type Connection, createConnection } from '../../src/database/connection.ts'
import { checkEventFilter, conditionValues } from '../../src/operations/event-filter.ts'
import { itemColumns } from '../../src/operations/event-item.ts'
import { type ListEventsOptions, listEvents } from '../../src/operations/list-events.ts'
import { matchStatement, windowStatement } from '../../src/operations/walk.ts'
import { type TestDatabase, createTestDatabase } from '../support/postgres.ts'
import { testSchema } from '../support/target.ts'
import { planOf, workOf } from './plan.ts'
import { dead, failing, plant, plantPublished, published } from './plant.ts'

let database: TestDatabase
let db: Connection

beforeAll(async () => {
  database = await createTestDatabase()
  db = createConnection({ databaseUrl: database.url, schema: testSchema })
})
afterAll(() => db.close())
beforeEach(() => database.query('TRUNCATE "waybill".outbox_events RESTART IDENTITY'))

const list = (options: ListEventsOptions = {}) => listEvents(db, testSchema, { order: 'newest', ...options })

/** The positions of all pages. */
async function positions(options: ListEventsOptions, betweenPages = async (): Promise<unknown> => undefined) {
  const seen: number[] = []
  let after: string | null = null
  do {
    const page: Awaited<ReturnType<typeof list>> = await list({ ...options, after })
    seen.push(...page.items.map(({ position }) => Number(position)))
    after = page.next
    await betweenPages()
  } while (after !== null)
  return seen
}

const downFrom = (first: number, count: number) => Array.from({ length: count }, (_, i) => first - i)

describe('the newest events first', () => {
  it('come page by page, each once, without those that are written meanwhile', async () => {
    await plantPublished(database, 7)
    expect(await positions({ limit: 3 }, () => plant(database, {}))).toEqual(downFrom(7, 7))
  })

  it('come from two sources without losing or repeating any', async () => {
    for (let i = 0; i < 10; i++)
      await plant(database, { ...dead, aggregate: ['n', `${i}`] }, { aggregate: ['n', `${i}`] }, published)
    const wanted = downFrom(30, 30).filter((position) => position % 3 !== 0)
    expect(await positions({ states: ['dead', 'pending'], limit: 3 })).toEqual(wanted)
  })

  it('come from many buckets, in every state', async () => {
    for (let i = 0; i < 12; i++)
      await plant(database, { ...failing, aggregate: ['n', `${i}`] }, { aggregate: ['n', `${i}`] })
    expect(await positions({ states: ['retrying'], limit: 5 })).toEqual(downFrom(23, 23).filter((p) => p % 2))
    expect(await positions({ states: ['blocked'], limit: 5 })).toEqual(
      downFrom(24, 24).filter((p) => p % 2 === 0),
    )
  })

  it('are found by small windows, and none is lost where one ends and the next begins', async () => {
    await plantPublished(database, 6000)
    await plant(database, published, published, published, published)
    await plantPublished(database, 998)
    expect(await positions({ aggregate: ['order', 'o-1'], limit: 3 })).toEqual([6004, 6003, 6002, 6001])
  })

  it.each(['newest', 'oldest'] as const)(
    'go on where a page ended because its time was over, in two sources, the %s first',
    async (order) => {
      // Told from the end of the list: each source needs several windows, and has its match behind them.
      const parts = [
        () => plant(database, { ...dead, type: 'wanted' }),
        () => bulk(1500, { dead: true }),
        () => plant(database, { aggregate: ['n', 'x'], type: 'wanted' }),
        () => bulk(6400, { dead: false }),
      ]
      for (const part of order === 'newest' ? parts : parts.toReversed()) await part()
      const options = { order, eventType: 'wanted', states: ['dead', 'pending'], timeLimitMs: 0 }
      expect((await list(options)).items).toEqual([])
      expect(await positions(options)).toEqual(order === 'newest' ? [1502, 1] : [6401, 7902])
    },
  )
})

/** Events of as many aggregates. */
const bulk = (count: number, { dead }: { dead: boolean }) =>
  database.query(
    `INSERT INTO "waybill".outbox_events (aggregate_type, aggregate_id, event_type, payload, last_attempt_at, dead_at)
     SELECT 'bulk', n::text, 'other', '{}', moment, moment
     FROM generate_series(1, ${count}) AS n, (SELECT ${dead ? 'now()' : 'NULL::timestamptz'} AS moment) AS m`,
  )

describe('a cursor', () => {
  it('of the other order is refused, whichever that is', async () => {
    await plantPublished(database, 3)
    for (const [order, other] of [
      ['oldest', 'newest'],
      ['newest', 'oldest'],
    ] as const) {
      const { next } = await list({ limit: 1, order })
      await expect(list({ limit: 1, order: other, after: next })).rejects.toMatchObject({
        code: 'USAGE_INVALID',
        message: `the cursor "${next}" belongs to a list with the ${order} events first, ask for the same order again or leave the cursor out`,
      })
      expect((await list({ limit: 1, order, after: next })).items).toMatchObject([{ position: '2' }])
    }
  })

  it.each(['q:12', 'n:', 'n:-1', 'n:9223372036854775808'])('%j is not one of ours', async (text) => {
    const after = Buffer.from(text).toString('base64url')
    await expect(list({ after })).rejects.toMatchObject({ message: expect.stringMatching(/not one of ours/) })
  })
})

it('an unknown order is refused', async () => {
  await expect(list({ order: 'latest' as never })).rejects.toMatchObject({
    code: 'USAGE_INVALID',
    message: 'expected order to be oldest or newest, got "latest"',
  })
})

it.each([
  ['all', 'outbox_events_position'],
  ['dead', 'outbox_events_dead'],
  ['unsettled', 'outbox_events_pending'],
] as const)('a window of "%s" is a range of the index %s, in both statements', async (source, index) => {
  await plantPublished(database, 20_000)
  await plant(database, {}, dead)
  await database.query('VACUUM ANALYZE "waybill".outbox_events')
  const { nodes: end } = await workOf(database, windowStatement(source, 'newest'), ['20003', 1000])
  expect(end).toContainEqual(
    expect.objectContaining({ index, condition: expect.stringMatching(/"position" < /) }),
  )
  const conditions = checkEventFilter({ aggregate: ['n', '3'], states: ['blocked', 'dead', 'published'] })
  const found = await planOf(database, matchStatement(source, 'newest', itemColumns(false)), [
    ...['20003', '15000', 51],
    ...conditionValues(conditions),
  ])
  expect(found).toContainEqual(
    expect.objectContaining({ index, condition: expect.stringMatching(/"position" < .*"position" >= /) }),
  )
})

it('a window over buckets ends where the first bucket has given its share', async () => {
  const inBucket = async (bucket: number) =>
    database.query(
      `INSERT INTO "waybill".outbox_events (aggregate_type, aggregate_id, event_type, payload)
       SELECT 'n', a.id, 'other', '{}' FROM generate_series(1, 60),
         (SELECT n::text AS id FROM generate_series(1, 10000) AS n WHERE "waybill".outbox_bucket('n', n::text) = $1 LIMIT 1) AS a`,
      [bucket],
    )
  await inBucket(1)
  await inBucket(2)
  const end = async (order: 'oldest' | 'newest', after: string) =>
    (await database.rows(windowStatement('unsettled', order), [after, 1000]))[0]!['position']
  // Positions 1 to 60 and 61 to 120; at least 50 of each bucket.
  expect(await end('oldest', '-1')).toBe('50')
  expect(await end('newest', '121')).toBe('71')
})
