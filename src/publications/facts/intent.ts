import type { Connection } from '../../database/connection.ts'
import { inSchema } from '../../database/identifiers.ts'
import { blockedBySql, eventStateSql } from '../../schema/event-state.ts'
import type { EventState } from '../../types.ts'
import { type TraceKey, eventOf } from '../key.ts'

/** The row of an intent: what was decided, and what the relay did with it. Times are UTC, ISO 8601. */
export interface IntentRow {
  readonly eventId: string
  readonly eventType: string
  readonly state: EventState
  readonly operationId: string | null
  readonly attempts: number
  readonly createdAt: string
  readonly processedAt: string | null
  readonly retryAfter: string | null
  readonly lastAttemptAt: string | null
  readonly lastError: string | null
  readonly receipt: string | null
  /** The event that this one waits for. */
  readonly blockedBy: string | null
  /** Milliseconds since it was written, or since it was handed over. */
  readonly ageMs: number
  /** Milliseconds from then until it was handed over; null: it was not. */
  readonly relayedAfterMs: number | null
}

/** What the outbox says of one revision. */
export interface IntentFact {
  /** Null: there is none. */
  readonly row: IntentRow | null
  /** The newest revision that was ever intended for the aggregate, decimal text; it outlives retention. */
  readonly headRevision: string | null
  /** The newest revision that is known to be handed over. */
  readonly relayedRevision: string | null
}

const time = (column: string) => `to_char(e.${column} AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')`

export async function findIntent(db: Connection, schema: string, key: TraceKey): Promise<IntentFact> {
  const { where, values } = eventOf(key)
  const intent = await db.query<IntentRow>(
    inSchema(
      `SELECT e.id::text AS "eventId", e.event_type AS "eventType", ${eventStateSql} AS "state",
              e.operation_id AS "operationId", e.attempts AS "attempts", ${time('created_at')} AS "createdAt",
              ${time('processed_at')} AS "processedAt", ${time('retry_after')} AS "retryAfter",
              ${time('last_attempt_at')} AS "lastAttemptAt", e.last_error AS "lastError", e.receipt AS "receipt",
              CASE WHEN e.processed_at IS NULL AND e.dead_at IS NULL AND e.discarded_at IS NULL
                   THEN (${blockedBySql})::text END AS "blockedBy",
              (extract(epoch FROM clock_timestamp() - coalesce(e.processed_at, e.created_at)) * 1000)::float8 AS "ageMs",
              (extract(epoch FROM e.processed_at - e.created_at) * 1000)::float8 AS "relayedAfterMs"
       FROM "waybill".outbox_events AS e
       WHERE ${where}`,
      schema,
    ),
    values,
  )
  const row = intent.rows[0] ?? null
  if (key.revision === null) return { row, headRevision: null, relayedRevision: null }
  const head = await db.query<{ revision: string | null; relayed: string | null }>(
    inSchema(
      `SELECT h.revision::text AS revision,
              ${relayedRevisionSql('$1::text', '$2::text', '$3::text', '$4::text::bigint')}::text AS relayed
       FROM (SELECT) AS one LEFT JOIN "waybill".publication_heads AS h
         ON h.aggregate_type = $1::text AND h.aggregate_id = $2::text AND h.intent_scope = $3::text`,
      schema,
    ),
    values,
  )
  const { revision, relayed } = head.rows[0]!
  return { row, headRevision: revision, relayedRevision: relayed }
}

/**
 * The newest revision that is known to be handed over, by the head `h` or by a later row than the one asked for: a head
 * that a writer held at that moment does not know it. The retry of a dead letter judges by the same. Indexes: the primary
 * key of publication_heads, outbox_events_revision.
 */
export const relayedRevisionSql = (type: string, id: string, scope: string, revision: string) => `greatest(
         h.relayed_revision, CASE WHEN h.relayed_at IS NOT NULL THEN h.revision END,
         (SELECT n.revision FROM "waybill".outbox_events AS n
          WHERE n.aggregate_type = ${type} AND n.aggregate_id = ${id} AND n.intent_scope = ${scope}
            AND n.revision > ${revision} AND n.processed_at IS NOT NULL
          ORDER BY n.revision DESC LIMIT 1))`

/** When a relay last read the bucket of the aggregate, and which relay owns it. */
export interface BucketFact {
  readonly bucket: number
  readonly readAt: string | null
  readonly owner: string | null
  /** The owner's lease has not run out. */
  readonly isOwned: boolean
}

export async function findBucket(db: Connection, schema: string, key: TraceKey): Promise<BucketFact> {
  const { rows } = await db.query<BucketFact>(
    inSchema(
      `SELECT e.bucket::int AS "bucket", ${time('read_at')} AS "readAt", e.owner::text AS "owner",
              coalesce(e.leased_until > clock_timestamp(), false) AS "isOwned"
       FROM "waybill".outbox_buckets AS e
       WHERE e.bucket = "waybill".outbox_bucket($1::text, $2::text)`,
      schema,
    ),
    [key.type, key.id],
  )
  return rows[0]!
}

/** When the intent was committed. `exact` false: the start of its transaction, which is all that the server kept. */
export interface CommitFact {
  readonly at: string
  readonly exact: boolean
}

/**
 * PostgreSQL keeps commit times while `track_commit_timestamp` is on, and only of its own cluster: in a restored dump
 * the number may belong to another transaction, so a time before the row's own start is not believed.
 */
export async function findCommit(db: Connection, schema: string, key: TraceKey): Promise<CommitFact | null> {
  const { where, values } = eventOf(key)
  const { rows } = await db.query<{ at: string; exact: boolean }>(
    inSchema(
      `SELECT to_char(coalesce(c.at, e.created_at) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS at,
              c.at IS NOT NULL AS exact
       FROM "waybill".outbox_events AS e
       LEFT JOIN LATERAL (
         SELECT t.at FROM (
           SELECT CASE WHEN current_setting('track_commit_timestamp') = 'on'
                         AND e.xid < pg_catalog.pg_snapshot_xmax(pg_catalog.pg_current_snapshot())
                       THEN pg_catalog.pg_xact_commit_timestamp(e.xid::xid) END AS at
         ) AS t WHERE t.at >= e.created_at
       ) AS c ON true
       WHERE ${where}`,
      schema,
    ),
    values,
  )
  return rows[0] ?? null
}
