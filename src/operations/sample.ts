import type { Connection } from '../database/connection.ts'
import { inSchema } from '../database/identifiers.ts'
import { type OutboxSample, countLimit } from '../telemetry/events.ts'
import { blockerSql, bucketSql, unsettledSql } from '../schema/event-state.ts'

/** A sample that was read, and how old it is by the database's clock. */
export interface StoredSample {
  readonly sample: OutboxSample
  readonly ageSeconds: number
  /** How long counting took, in milliseconds. */
  readonly durationMs: number
}

// Who holds an aggregate back. Index outbox_events_troubled, which holds nothing else: as many rows as there are
// aggregates in trouble. $1 the limit of counts.
const blockersStatement = `
  SELECT count(*)::int AS "aggregates", coalesce(sum(a.failing), 0)::int AS "failing",
         coalesce(array_agg(DISTINCT a.bucket) FILTER (WHERE a.bucket IS NOT NULL), '{}')::int[] AS "buckets"
  FROM (
    SELECT count(*) FILTER (WHERE b.dead_at IS NULL) AS failing, "waybill".outbox_bucket(b.aggregate_type, b.aggregate_id) AS bucket
    FROM (
      SELECT * FROM "waybill".outbox_events AS b WHERE ${blockerSql}
      ORDER BY b.aggregate_type, b.aggregate_id LIMIT $1::int
    ) AS b
    GROUP BY b.aggregate_type, b.aggregate_id
  ) AS a`

// What waits behind them, and how many of these have failed themselves. Index outbox_events_pending, only the buckets
// of the statement above ($2), and all of them in one scan: bucket by bucket each page of the table would be visited
// once for each of its buckets.
const blockedStatement = `
  WITH blockers AS MATERIALIZED (
    SELECT b.aggregate_type, b.aggregate_id, min(b.position) AS first
    FROM (
      SELECT * FROM "waybill".outbox_events AS b WHERE ${blockerSql}
      ORDER BY b.aggregate_type, b.aggregate_id LIMIT $1::int
    ) AS b
    GROUP BY b.aggregate_type, b.aggregate_id
  )
  SELECT least(count(*), $1::int)::int AS "blocked",
         least(count(*) FILTER (WHERE e.last_attempt_at IS NOT NULL), $1::int)::int AS "failed"
  FROM (
    SELECT e.aggregate_type, e.aggregate_id, e.position, e.last_attempt_at FROM "waybill".outbox_events AS e
    WHERE ${bucketSql} = ANY ($2::int[]) AND ${unsettledSql}
    LIMIT $1::int * 3
  ) AS e
  JOIN blockers AS b ON b.aggregate_type = e.aggregate_type AND b.aggregate_id = e.aggregate_id
    AND b.first < e.position`

// Everything else. For each bucket its range of outbox_events_pending is counted and its first row looked up; ordering by
// position keeps the planner on that index also where its statistics are old. $1 the limit of counts, $2 the limit
// for unsettled events.
const countsStatement = `
  SELECT to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS "sampledAt",
    (SELECT count(*)::int FROM (
      SELECT FROM "waybill".outbox_buckets AS k CROSS JOIN LATERAL (
        SELECT FROM "waybill".outbox_events AS e WHERE ${bucketSql} = k.bucket AND ${unsettledSql}
        ORDER BY e.position LIMIT $2::int) AS e
      LIMIT $2::int) AS u) AS "unsettled",
    (SELECT count(*)::int FROM (
      SELECT FROM "waybill".outbox_events AS e
      WHERE e.dead_at IS NOT NULL AND e.processed_at IS NULL AND e.discarded_at IS NULL
      ORDER BY e.position LIMIT $1::int) AS d) AS "dead",
    (SELECT CASE WHEN count(*) > 0 THEN greatest(0, extract(epoch FROM clock_timestamp() - min(f.created_at))) END::float8
     FROM "waybill".outbox_buckets AS k CROSS JOIN LATERAL (
      SELECT e.created_at FROM "waybill".outbox_events AS e WHERE ${bucketSql} = k.bucket AND ${unsettledSql}
      ORDER BY e.position LIMIT 1) AS f) AS "oldestPendingAgeSeconds"`

/**
 * Counts the outbox. Three statements over partial indexes, each stopping at `countLimit`; none of them reads what
 * was published. The age of the oldest pending event is that of the oldest among the first of each bucket.
 */
export async function takeSample(db: Connection, schema: string, limit = countLimit): Promise<OutboxSample> {
  const one = async <Row>(sql: string, values: readonly unknown[]): Promise<Row> =>
    (await db.query<Row>(inSchema(sql, schema), values)).rows[0]!
  const { aggregates, failing, buckets } = await one<{
    aggregates: number
    failing: number
    buckets: number[]
  }>(blockersStatement, [limit])
  const { blocked, failed } =
    buckets.length === 0
      ? { blocked: 0, failed: 0 }
      : await one<{ blocked: number; failed: number }>(blockedStatement, [limit, buckets])
  const retrying = Math.max(0, failing - failed)
  // So many more that the pending ones alone reach the limit before the count stops.
  const { unsettled, dead, ...rest } = await one<{
    sampledAt: string
    unsettled: number
    dead: number
    oldestPendingAgeSeconds: number | null
  }>(countsStatement, [limit, limit + retrying + blocked])
  return {
    ...rest,
    counts: { pending: Math.max(0, unsettled - retrying - blocked), retrying, blocked, dead },
    blockedAggregates: aggregates,
  }
}

/** The sample that a relay left, or null when there is none yet. One look-up by key. */
export async function readSample(db: Connection, schema: string): Promise<StoredSample | null> {
  const { rows } = await db.query<{ result: OutboxSample & { durationMs: number }; age: number }>(
    inSchema(
      `SELECT t.result AS "result", greatest(0, extract(epoch FROM clock_timestamp() - t.finished_at))::float8 AS "age"
       FROM "waybill".outbox_tasks AS t WHERE t.name = 'sample' AND t.result IS NOT NULL AND t.finished_at IS NOT NULL`,
      schema,
    ),
  )
  const [row] = rows
  if (row === undefined) return null
  const { durationMs, ...sample } = row.result
  return { sample, ageSeconds: row.age, durationMs }
}

/** A count as people read it: `1000000+` where counting stopped. */
export function formatCount(count: number): string {
  return count >= countLimit ? `${countLimit}+` : String(count)
}
