import { afterAll, beforeEach, describe, expect, it } from 'vitest'
import { type Connection, createConnection } from '../../src/database/connection.ts'
import { lastPosition } from '../../src/operations/cursor.ts'
import { checkEventFilter, conditionValues } from '../../src/operations/event-filter.ts'
import { itemColumns } from '../../src/operations/event-item.ts'
import { retryDeadLetters } from '../../src/operations/dead-letters.ts'
import { laterStatement } from '../../src/operations/overtaken.ts'
import { takeSample } from '../../src/operations/sample.ts'
import { matchStatement, windowStatement } from '../../src/operations/walk.ts'
import { createStatements } from '../../src/relay/statements.ts'
import { type TestDatabase, createTestDatabase } from '../support/postgres.ts'
import { testSchema } from '../support/target.ts'
import { type Work, fullScans, workOf } from './plan.ts'

// What the planner believes is often wrong: a table was just filled or restored and nobody has looked at it, or it
// was looked at while everything was pending. No statement may then read, or compare, many times what it needs.

let database: TestDatabase
let db: Connection
const connections: Connection[] = []

beforeEach(async () => {
  // A new one for each test: statistics outlive TRUNCATE.
  database = await createTestDatabase()
  db = createConnection({ databaseUrl: database.url, schema: testSchema })
  connections.push(db)
  await database.query('ALTER TABLE "waybill".outbox_events SET (autovacuum_enabled = off)')
})
afterAll(() => Promise.all(connections.map((connection) => connection.close())))

/** So many events of each kind; `blocked` aggregates have a failed event and two behind it. */
interface Kinds {
  published?: number
  pending?: number
  blocked?: number
  dead?: number
}

async function fill({ published = 0, pending = 0, blocked = 0, dead = 0 }: Kinds): Promise<void> {
  const add = (kind: string, count: number, each = 1) =>
    database.query(
      `INSERT INTO "waybill".outbox_events (aggregate_type, aggregate_id, event_type, payload, operation_id)
       SELECT $1, n::text, 'x', '{}', m::text FROM generate_series(1, $3::int) AS m, generate_series(1, $2::int) AS n`,
      [kind, count, each],
    )
  await add('published', published)
  await add('dead', dead)
  await add('blocked', blocked, 3)
  await add('pending', pending)
}

/** The events of `fill`, as a relay leaves them. */
async function settle(): Promise<void> {
  await database.query(
    `UPDATE "waybill".outbox_events SET
       processed_at = CASE WHEN aggregate_type = 'published' THEN now() END,
       dead_at = CASE WHEN aggregate_type = 'dead' THEN now() END,
       last_attempt_at = CASE WHEN aggregate_type = 'dead' OR aggregate_type = 'blocked' AND operation_id = '1' THEN now() END
     WHERE aggregate_type <> 'pending'`,
  )
}

const beliefs = {
  'without statistics': async () => {},
  'with statistics from when everything was pending': () => database.query('ANALYZE "waybill".outbox_events'),
  'with statistics of today': async () => {},
}

describe.each(Object.keys(beliefs) as (keyof typeof beliefs)[])('%s', (belief) => {
  async function prepare(kinds: Kinds): Promise<void> {
    await fill(kinds)
    await beliefs[belief]()
    await settle()
    if (belief === 'with statistics of today') await database.query('VACUUM ANALYZE "waybill".outbox_events')
  }

  it('a sample looks at each event that is not published a few times, and at no other', async () => {
    await prepare({ published: 30_000, pending: 3_000, blocked: 500, dead: 1_000 })
    const work: Work[] = []
    const spying: Connection = {
      ...db,
      query: async (text, values = [], ...rest) => {
        work.push(await workOf(database, text, values))
        return db.query(text, values, ...rest)
      },
    }
    expect(await takeSample(spying, testSchema)).toMatchObject({
      counts: { pending: 3_000, retrying: 500, blocked: 1_000, dead: 1_000 },
      blockedAggregates: 500,
    })
    expect(work.flatMap(({ nodes }) => fullScans(nodes))).toEqual([])
    // 5 500 events, each passing through up to twenty nodes of the three plans; compared in pairs it would be millions.
    expect(work.reduce((sum, { rows }) => sum + rows, 0)).toBeLessThan(110_000)
  })

  it('the end of a window is counted off in the index of positions', async () => {
    await prepare({ published: 40_000 })
    const { nodes, rows } = await workOf(database, windowStatement('all', 'oldest'), ['10000', 20_000])
    expect(fullScans(nodes)).toEqual([])
    expect(nodes.flatMap(({ index }) => index ?? [])).toEqual(['outbox_events_position'])
    expect(rows).toBeLessThan(50_000)
  })

  it('a page of many is looked up row by row', async () => {
    await prepare({ published: 20_000, dead: 4_000 })
    const conditions = { ...checkEventFilter({}), states: null }
    const { nodes, rows } = await workOf(database, matchStatement('dead', 'oldest', itemColumns(false)), [
      ...['-1', '9223372036854775807', 1_001],
      ...conditionValues(conditions),
    ])
    expect(fullScans(nodes)).toEqual([])
    expect(nodes).toContainEqual(
      expect.objectContaining({
        index: 'outbox_events_position',
        condition: expect.stringMatching(/^\("position" = \w+."position"\)$/),
      }),
    )
    expect(rows).toBeLessThan(15_000)
  })

  it('later events of thousands of aggregates are found in one range of positions, without a join', async () => {
    await prepare({ published: 20_000, dead: 4_000 })
    const hashes = await database.rows<{ hash: string }>(
      `SELECT hashtextextended(n::text, hashtextextended('dead', 0))::text AS hash FROM generate_series(1, 4000) AS n`,
    )
    const { nodes } = await workOf(database, laterStatement, [
      ...['5000', '6000'],
      `{${hashes.map(({ hash }) => hash).join(',')}}`,
    ])
    const scans = nodes.filter(({ node }) => !/Aggregate|Sort/.test(node))
    expect(scans.map(({ index }) => index).filter((index) => index !== undefined)).toEqual([
      'outbox_events_position',
    ])
    expect(nodes.map(({ node }) => node).filter((node) => /Join|Loop|Seq Scan/.test(node))).toEqual([])
  })

  it('the dead letters that hold are found without looking at the others', async () => {
    await prepare({ published: 5_000, dead: 4_000 })
    const buckets = Array.from({ length: 64 }, (_, bucket) => bucket)
    const { nodes } = await workOf(database, createStatements('waybill').readHeld, [buckets])
    expect(nodes.flatMap(({ index }) => index ?? [])).toEqual(['outbox_events_holding'])
  })
})

it('thousands of dead letters are checked together for later events, in one walk to the end of the table', async () => {
  await fill({ dead: 12_000, published: 20_000 })
  await settle()
  const ends: unknown[] = []
  const spying: Connection = {
    ...db,
    query: (text, values = [], ...rest) => {
      if (text.includes('max(e.position)')) ends.push(values[1])
      return db.query(text, values, ...rest)
    },
  }
  expect(await retryDeadLetters(spying, testSchema, { all: true })).toMatchObject({ changed: 12_000 })
  expect(ends.filter((end) => end === lastPosition)).toHaveLength(1)
})
