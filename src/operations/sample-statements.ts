import { blockerSql, bucketSql, deadSql, unsettledSql } from '../schema/event-state.ts'

// What counting the outbox asks, over partial indexes alone: none of it reads what was published.

/**
 * Who holds an aggregate back, and the buckets where that is so. $1 the limit of counts. Index outbox_events_troubled,
 * which holds nothing else: as many rows as there are events in trouble.
 */
export const blockersStatement = `
  SELECT count(*)::int AS "aggregates", coalesce(sum(a.failing), 0)::int AS "failing",
         ARRAY(SELECT k.bucket::int FROM "waybill".outbox_buckets AS k ORDER BY k.bucket) AS "buckets",
         coalesce(array_agg(DISTINCT a.bucket) FILTER (WHERE a.bucket IS NOT NULL), '{}')::int[] AS "troubled"
  FROM (
    SELECT count(*) FILTER (WHERE b.dead_at IS NULL) AS failing, "waybill".outbox_bucket(b.aggregate_type, b.aggregate_id) AS bucket
    FROM (
      SELECT b.aggregate_type, b.aggregate_id, b.dead_at FROM "waybill".outbox_events AS b WHERE ${blockerSql}
      ORDER BY b.aggregate_type, b.aggregate_id LIMIT $1::int
    ) AS b
    GROUP BY b.aggregate_type, b.aggregate_id
  ) AS a`

// For each bucket of $2 its range of outbox_events_pending, up to $1 rows in all. Bucket by bucket and ordered by
// position it is that index whatever the planner believes; asked for all of them at once, a planner whose statistics
// are from a time when everything was pending reads the whole table.
const unsettled = (columns: string) => `
      SELECT ${columns} FROM unnest($2::int[]) AS k(bucket) CROSS JOIN LATERAL (
        SELECT e.aggregate_type, e.aggregate_id, e.position, e.last_attempt_at
        FROM "waybill".outbox_events AS e WHERE ${bucketSql} = k.bucket AND ${unsettledSql}
        ORDER BY e.position LIMIT $1::int) AS e
      LIMIT $1::int`

/** What waits in buckets without trouble. $1 the most rows, $2 the buckets. */
export const unsettledStatement = `
  SELECT count(*)::int AS "unsettled", 0 AS "blocked", 0 AS "failed" FROM (${unsettled('')}) AS e`

/**
 * What waits in buckets with trouble, how much of it behind a blocker, and how many of these have failed themselves. $1
 * the most rows, $2 the buckets. A FULL JOIN, although only pairs count: it cannot be done by a nested loop, which a
 * planner without statistics would choose, and compare each event with each blocker.
 */
export const blockedStatement = `
  WITH blockers AS MATERIALIZED (
    SELECT b.aggregate_type, b.aggregate_id, min(b.position) AS first
    FROM (
      SELECT b.aggregate_type, b.aggregate_id, b.position FROM "waybill".outbox_events AS b WHERE ${blockerSql}
      ORDER BY b.aggregate_type, b.aggregate_id LIMIT $1::int
    ) AS b
    WHERE "waybill".outbox_bucket(b.aggregate_type, b.aggregate_id) = ANY ($2::int[])
    GROUP BY b.aggregate_type, b.aggregate_id
  )
  SELECT count(e.position)::int AS "unsettled",
         count(*) FILTER (WHERE b.first < e.position)::int AS "blocked",
         count(*) FILTER (WHERE b.first < e.position AND e.last_attempt_at IS NOT NULL)::int AS "failed"
  FROM (${unsettled('e.*')}) AS e
  FULL JOIN blockers AS b ON b.aggregate_type = e.aggregate_type AND b.aggregate_id = e.aggregate_id`

/** Dead letters after position $1, at most $2 of them, and the last one. Index outbox_events_dead. */
export const deadStatement = `
  SELECT count(*)::int AS "rows", max(d.position)::text AS "last" FROM (
    SELECT e.position FROM "waybill".outbox_events AS e WHERE ${deadSql} AND e.position > $1::bigint
    ORDER BY e.position LIMIT $2::int) AS d`

/** The age of the oldest event among the first of each bucket. */
export const oldestStatement = `
  SELECT to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS "sampledAt",
    CASE WHEN count(*) > 0 THEN greatest(0, extract(epoch FROM clock_timestamp() - min(f.created_at))) END::float8
      AS "oldestPendingAgeSeconds"
  FROM "waybill".outbox_buckets AS k CROSS JOIN LATERAL (
    SELECT e.created_at FROM "waybill".outbox_events AS e WHERE ${bucketSql} = k.bucket AND ${unsettledSql}
    ORDER BY e.position LIMIT 1) AS f`
