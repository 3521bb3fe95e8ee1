import { createInboxStatements } from '../../src/consumer/statements.ts'
import { lookStatement } from '../../src/publications/rebuild-target.ts'
import { beforeEach, describe, expect, it } from 'vitest'
import {
  frontierStatement,
  deadOfConsumerStatement,
  lagStatement,
  parkedOfConsumerStatement,
  resultsOfConsumerStatement,
  resultsStatement,
} from '../../src/operations/consumer-statements.ts'
import { type TestDatabase, createTestDatabase } from '../support/postgres.ts'
import { workOf } from './plan.ts'

// As in statistics.int.test.ts: whatever the planner believes, no statement about consumers may read more than it
// needs of what was handled.

let database: TestDatabase
const many = 30_000

beforeEach(async () => {
  database = await createTestDatabase()
  for (const table of ['outbox_events', 'processed_events', 'consumer_messages'])
    await database.query(`ALTER TABLE "waybill".${table} SET (autovacuum_enabled = off)`)
  await database.query(`INSERT INTO "waybill".consumers (consumer) VALUES ('busy'), ('other')`)
})

/** Each event was handled by two consumers; one of them has put a few messages aside, and keeps many. */
async function fill(count: number): Promise<void> {
  await database.query(
    `INSERT INTO "waybill".outbox_events (aggregate_type, aggregate_id, event_type, payload, processed_at)
     SELECT 'x', n::text, 't', '{}', now() FROM generate_series(1, $1::int) AS n`,
    [count],
  )
  await database.query(
    `INSERT INTO "waybill".processed_events (consumer, event_id, result, processed_at)
     SELECT c, e.id::text, 'applied', now() - (e.position % 100000) * interval '1 millisecond'
     FROM "waybill".outbox_events AS e, unnest('{busy,other}'::text[]) AS c
     ON CONFLICT DO NOTHING`,
  )
  await database.query(
    `INSERT INTO "waybill".consumer_messages (consumer, event_id, state, projection, aggregate_type, aggregate_id, revision, delivery, body)
     SELECT c, n || '-' || $1, CASE WHEN n % 60 = 0 THEN 'rebuild' ELSE (ARRAY['dead', 'parked', 'failing'])[1 + n % 3] END, 'p', 'x', n::text, 1, '{}', ''
     FROM generate_series(1, $1::int) AS n, unnest('{busy,other}'::text[]) AS c`,
    [count],
  )
}

const tables = ['outbox_events', 'processed_events', 'consumer_messages'] as const
const analyze = async () => {
  for (const table of tables) await database.query(`VACUUM ANALYZE "waybill".${table}`)
}

const beliefs: Record<string, () => Promise<void>> = {
  'without statistics': () => fill(many),
  'with statistics from when there was little': async () => {
    await fill(10)
    await analyze()
    await fill(many)
  },
  'with statistics of today': async () => {
    await fill(many)
    await analyze()
  },
}

async function work(sql: string, values: unknown[]): Promise<{ indexes: string[]; rows: number }> {
  const { nodes, rows } = await workOf(database, sql, values)
  const full = nodes.filter(
    ({ node, relation }) => /Seq Scan/.test(node) && tables.some((table) => table === relation),
  )
  expect(full).toEqual([])
  return { indexes: [...new Set(nodes.flatMap(({ index }) => index ?? []))].sort(), rows }
}

describe.each(Object.keys(beliefs))('%s', (belief) => {
  it('results, lag and counts of a consumer are looked up in its own indexes', async () => {
    await beliefs[belief]!()
    for (const [sql, index] of [
      [resultsOfConsumerStatement, 'processed_events_processed_at'],
      [deadOfConsumerStatement, 'consumer_messages_dead'],
      [parkedOfConsumerStatement, 'consumer_messages_parked'],
    ] as const) {
      const counted = await work(sql, ['busy', 1_000])
      expect(counted.indexes).toEqual([index])
      expect(counted.rows).toBeLessThan(9_000)
    }

    const rebuilds = await work(createInboxStatements(database.schema).toRebuild, ['busy', '100'])
    expect(rebuilds.indexes).toEqual(['consumer_messages_pkey', 'consumer_messages_retry'])
    expect(rebuilds.rows).toBeLessThan(5_000)
    const look = await work(lookStatement, ['busy', 'p', 'now', 't', 1_200])
    expect(look.indexes).toEqual(
      expect.arrayContaining(['consumer_messages_dead', 'consumer_messages_retry']),
    )
    expect(look.rows).toBeLessThan(5_000)

    const frontier = await work(frontierStatement, ['busy'])
    expect(frontier.indexes).toEqual(['outbox_events_pkey', 'processed_events_processed_at'])
    expect(frontier.rows).toBeLessThan(1_000)

    const lag = await work(lagStatement, ['10', '2010', 'busy', ['t']])
    expect(lag.indexes).toEqual(['outbox_events_position', 'processed_events_pkey'])
    expect(lag.rows).toBeLessThan(15_000)

    const events = await database.rows<{ id: string }>(
      'SELECT id::text FROM "waybill".outbox_events ORDER BY position DESC LIMIT 1000',
    )
    const results = await work(resultsStatement, [events.map(({ id }) => id), 100])
    expect(results.indexes).toEqual(
      expect.arrayContaining(['consumer_messages_pkey', 'processed_events_pkey']),
    )
    expect(results.rows).toBeLessThan(25_000)
  })
})
