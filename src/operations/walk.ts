import type { Connection } from '../database/connection.ts'
import { inSchema } from '../database/identifiers.ts'
import { type ListOrder, edges } from './cursor.ts'
import {
  type Conditions,
  type EventSource,
  conditionValues,
  conditionsSql,
  isSelective,
  statesToTest,
} from './event-filter.ts'
import { bucketSql, deadSql, unsettledSql } from '../schema/event-state.ts'
import { createWindowSize } from './window.ts'

// How events are found in the order of their position, or against it, at a bounded cost for each statement, whatever
// the number of rows: a statement looks at one window of the source (at most `window` index entries) and says where
// the window ends, the next one goes on from there.

/** How SQL says each order: what lies beyond a position, and what is still inside an end. */
const words = {
  oldest: { beyond: '>', inside: '<=', direction: 'ASC', nearest: 'min' },
  newest: { beyond: '<', inside: '>=', direction: 'DESC', nearest: 'max' },
} as const

/**
 * Rows of one step in the whole table. Told to count off more of them at once, a planner without statistics, which
 * takes each for a page of its own, would rather read and sort the table for every window.
 */
const stepRows = 100

/** $1 after which position, $2 how many rows: the last position of the window, no row when the source ends before. */
export function windowStatement(source: EventSource, order: ListOrder): string {
  const { beyond, direction, nearest } = words[order]
  const statements: Readonly<Record<EventSource, string>> = {
    // Index outbox_events_position alone.
    all: `WITH RECURSIVE steps(position, number) AS (
        SELECT $1::bigint, 0
        UNION ALL
        SELECT (SELECT e.position FROM "waybill".outbox_events AS e WHERE e.position ${beyond} s.position
                ORDER BY e.position ${direction} OFFSET ${stepRows - 1} LIMIT 1), s.number + 1
        FROM steps AS s WHERE s.position IS NOT NULL AND s.number < $2::int / ${stepRows}
      )
      SELECT s.position FROM steps AS s WHERE s.number = $2::int / ${stepRows} AND s.position IS NOT NULL`,
    // Index outbox_events_dead alone.
    dead: `SELECT e.position FROM "waybill".outbox_events AS e
      WHERE ${deadSql} AND e.position ${beyond} $1::bigint
      ORDER BY e.position ${direction} OFFSET $2::int - 1 LIMIT 1`,
    // Index outbox_events_pending alone. It is ordered inside a bucket only: each bucket gives the same number of
    // rows, and the window ends where the first bucket has given all of its share.
    unsettled: `SELECT ${nearest}(w.position) AS position
      FROM "waybill".outbox_buckets AS k
      CROSS JOIN LATERAL (
        SELECT e.position FROM "waybill".outbox_events AS e
        WHERE ${bucketSql} = k.bucket AND ${unsettledSql} AND e.position ${beyond} $1::bigint
        ORDER BY e.position ${direction}
        OFFSET greatest($2::int / (SELECT count(*)::int FROM "waybill".outbox_buckets), 50) - 1 LIMIT 1
      ) AS w
      HAVING ${nearest}(w.position) IS NOT NULL`,
  }
  return statements[source]
}

/**
 * The matching rows of one window: positions from the source's own index, then the rows themselves. $1 and $2 the
 * window (after, up to), $3 how many rows, $4 to $9 the conditions.
 */
export function matchStatement(source: EventSource, order: ListOrder, columns: string): string {
  const { beyond, inside, direction } = words[order]
  const inWindow = `e.position ${beyond} $1::bigint AND e.position ${inside} $2::bigint`
  const positions: Readonly<Record<EventSource, string>> = {
    all: `SELECT e.position FROM "waybill".outbox_events AS e
      WHERE ${inWindow} AND ${conditionsSql(4)}
      ORDER BY e.position ${direction} LIMIT $3::int`,
    dead: `SELECT e.position FROM "waybill".outbox_events AS e
      WHERE ${deadSql} AND ${inWindow} AND ${conditionsSql(4)}
      ORDER BY e.position ${direction} LIMIT $3::int`,
    unsettled: `SELECT w.position
      FROM "waybill".outbox_buckets AS k
      CROSS JOIN LATERAL (
        SELECT e.position FROM "waybill".outbox_events AS e
        WHERE ${bucketSql} = k.bucket AND ${unsettledSql} AND ${inWindow} AND ${conditionsSql(4)}
        ORDER BY e.position ${direction} LIMIT $3::int
      ) AS w
      WHERE $5::text IS NULL OR k.bucket = "waybill".outbox_bucket($5::text, $6::text)
      ORDER BY w.position ${direction} LIMIT $3::int`,
  }
  // Behind OFFSET 0 each row is looked up by itself: a planner that expects more of them may prefer to read the table.
  return `SELECT ${columns}
    FROM (${positions[source]}) AS found
    CROSS JOIN LATERAL (
      SELECT * FROM "waybill".outbox_events AS e WHERE e.position = found.position OFFSET 0
    ) AS e
    ORDER BY e.position ${direction}`
}

export interface WalkOptions {
  db: Connection
  schema: string
  source: EventSource
  conditions: Conditions
  /** Select list about the row `e`; must hold `position` as text. */
  columns: string
  order: ListOrder
  /** Position after which to look, in that order. */
  after: string
  /** How many rows are wanted. */
  need: number
  /** Asked after each window: true ends the walk early. */
  isOver?: () => boolean
}

export interface Walked<Row> {
  readonly rows: readonly Row[]
  /** Everything up to here was looked at; null when there is nothing beyond. */
  readonly upTo: string | null
}

/** Index entries of the first window, and of the largest. */
const windows = { first: 1_000, most: 50_000 }

/** Collects up to `need` matching rows in the order of their position, or against it. */
export async function walk<Row extends { position: string }>(options: WalkOptions): Promise<Walked<Row>> {
  const { db, schema, source, conditions, columns, order, need, isOver = () => false } = options
  const states = statesToTest(source, conditions.states)
  const everyRowMatches = states === null && !isSelective(conditions)
  const windowSql = inSchema(windowStatement(source, order), schema)
  const matchSql = inSchema(matchStatement(source, order, columns), schema)
  const window = createWindowSize(windows)
  const rows: Row[] = []
  let after = options.after
  for (;;) {
    const startedAt = performance.now()
    const end = everyRowMatches
      ? undefined
      : (await db.query<{ position: string }>(windowSql, [after, window.rows])).rows[0]?.position
    const found = await db.query<Row>(matchSql, [
      after,
      end ?? edges[order].end,
      need - rows.length,
      ...conditionValues(conditions, states),
    ])
    rows.push(...found.rows)
    if (rows.length >= need) return { rows, upTo: rows.at(-1)!.position }
    if (end === undefined) return { rows, upTo: null }
    after = end
    window.took(performance.now() - startedAt)
    if (isOver()) return { rows, upTo: after }
  }
}
