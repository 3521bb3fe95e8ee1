import { inSchema } from '../database/identifiers.ts'
import type { Archive } from './archive.ts'

// One step of the sweep looks at a window of rows (index outbox_events_position) and settles it with at most three
// statements. $1 the position after which the window starts, $2 its last position, $3 the moment before which an
// event must have been processed. Rows that are pending, blocked, dead or discarded have no processed_at.

const prunable = `e.processed_at < $3::text::timestamptz
      AND e.id NOT IN (SELECT r.event_id FROM "waybill".replays AS r WHERE r.state = 'pending')`

/** `aged`: rows old enough that rows beyond this window may be prunable too. */
export const lookStatement = `
  SELECT count(*) FILTER (WHERE e.created_at < $3::text::timestamptz)::int AS "aged",
         count(*) FILTER (WHERE ${prunable})::int AS "prunable",
         count(*) FILTER (WHERE ${prunable} AND e.revision IS NOT NULL)::int AS "intents"
  FROM "waybill".outbox_events AS e
  WHERE e.position > $1::bigint AND e.position <= $2::bigint`

// The newest relayed revision of each publication in the window.
const newest = `SELECT DISTINCT ON (e.aggregate_type, e.aggregate_id, e.intent_scope)
           e.aggregate_type, e.aggregate_id, e.intent_scope, e.revision, e.processed_at
    FROM "waybill".outbox_events AS e
    WHERE e.position > $1::bigint AND e.position <= $2::bigint AND ${prunable} AND e.revision IS NOT NULL
    ORDER BY e.aggregate_type, e.aggregate_id, e.intent_scope, e.revision DESC`

/**
 * The heads learn what was relayed, mostly from the relay long ago. A head that a writer holds is left alone: its
 * events stay until the next sweep.
 */
export const recordStatement = `
  WITH newest AS (
    ${newest}
  ), heads AS (
    SELECT h.aggregate_type, h.aggregate_id, h.intent_scope, n.revision AS relayed, n.processed_at
    FROM "waybill".publication_heads AS h
    JOIN newest AS n ON n.aggregate_type = h.aggregate_type AND n.aggregate_id = h.aggregate_id
      AND n.intent_scope = h.intent_scope
    WHERE h.relayed_revision IS NULL OR h.relayed_revision < n.revision
       OR (h.revision = n.revision AND h.relayed_at IS NULL)
    FOR NO KEY UPDATE OF h SKIP LOCKED
  )
  UPDATE "waybill".publication_heads AS h
  SET relayed_revision = greatest(h.relayed_revision, l.relayed),
      relayed_at = CASE WHEN h.revision = l.relayed THEN coalesce(h.relayed_at, l.processed_at) ELSE h.relayed_at END
  FROM heads AS l
  WHERE h.aggregate_type = l.aggregate_type AND h.aggregate_id = l.aggregate_id AND h.intent_scope = l.intent_scope`

/**
 * Heads for publications that have none (revisions written by plain SQL). Waits at most 50 ms for a writer who is
 * making the same one; then the statement fails with 55P03 and the events stay until the next sweep.
 */
export const adoptStatement = `
  WITH patience AS MATERIALIZED (SELECT set_config('lock_timeout', '50ms', true))
  INSERT INTO "waybill".publication_heads
    (aggregate_type, aggregate_id, intent_scope, revision, event_id, relayed_at, relayed_revision)
  SELECT n.aggregate_type, n.aggregate_id, n.intent_scope, last.revision, last.id,
         CASE WHEN last.revision = n.revision THEN n.processed_at END, n.revision
  FROM patience
  CROSS JOIN (
    ${newest}
  ) AS n
  CROSS JOIN LATERAL (
    SELECT e.revision, e.id FROM "waybill".outbox_events AS e
    WHERE e.aggregate_type = n.aggregate_type AND e.aggregate_id = n.aggregate_id
      AND e.intent_scope = n.intent_scope AND e.revision IS NOT NULL
    ORDER BY e.revision DESC LIMIT 1
  ) AS last
  WHERE NOT EXISTS (
    SELECT FROM "waybill".publication_heads AS h
    WHERE h.aggregate_type = n.aggregate_type AND h.aggregate_id = n.aggregate_id AND h.intent_scope = n.intent_scope)
  ON CONFLICT DO NOTHING`

/** An event with a revision goes only once its head knows that revision, or a newer one, to be relayed. */
export function removeStatement(schema: string, archive: Archive | undefined): string {
  // The archive's name comes in afterwards: it must stay what the user wrote.
  const gone = inSchema(
    `
    DELETE FROM "waybill".outbox_events AS e
    USING (
      SELECT e.id FROM "waybill".outbox_events AS e
      WHERE e.position > $1::bigint AND e.position <= $2::bigint AND ${prunable}
        AND (e.revision IS NULL OR EXISTS (
          SELECT FROM "waybill".publication_heads AS h
          WHERE h.aggregate_type = e.aggregate_type AND h.aggregate_id = e.aggregate_id
            AND h.intent_scope = e.intent_scope AND h.relayed_revision >= e.revision))
      ORDER BY e.position FOR UPDATE SKIP LOCKED
    ) AS old
    WHERE e.id = old.id`,
    schema,
  )
  if (archive === undefined) return gone
  return `
  WITH gone AS (${gone}
    RETURNING e.*
  )
  INSERT INTO ${archive.target} (${archive.columns}) SELECT ${archive.columns} FROM gone`
}
