import { deadSql } from './event-state.ts'

// The two actions on a chunk of dead letters, each one statement and so one transaction. $1 ids, $2 who decided,
// $3 why, $4 the table's name; for a retry $5 whether older revisions may go out after newer ones.
//
// Locks are taken in the relay's order (buckets by number, then events), so that neither waits for the other in a
// circle. `rescan` makes the owner of a bucket read it from the start; the NOTIFY makes one that sleeps look now.

const locks = {
  // Index: the primary key.
  wanted: `SELECT e.id, e.bucket FROM "waybill".outbox_events AS e
    WHERE e.id = ANY ($1::text[]::uuid[]) AND ${deadSql}`,
  buckets: `SELECT k.bucket FROM "waybill".outbox_buckets AS k
    WHERE k.bucket IN (SELECT w.bucket FROM wanted AS w)
    ORDER BY k.bucket FOR NO KEY UPDATE`,
  letters: `SELECT e.id, e.position, e.bucket, e.aggregate_type, e.aggregate_id, e.revision, e.intent_scope,
           e.attempts, e.holds, e.last_error
    FROM "waybill".outbox_events AS e
    WHERE e.id IN (SELECT w.id FROM wanted AS w) AND e.bucket IN (SELECT b.bucket FROM buckets AS b) AND ${deadSql}
    ORDER BY e.position FOR UPDATE`,
}

// Newer revisions of the same pair and scope that are out: known to the head, or seen in the rows (indexes: the
// primary key of publication_heads, outbox_events_revision).
const judged = `SELECT l.id, l.holds, NOT $5::boolean AND l.revision IS NOT NULL AND (
        EXISTS (
          SELECT FROM "waybill".publication_heads AS h
          WHERE h.aggregate_type = l.aggregate_type AND h.aggregate_id = l.aggregate_id
            AND h.intent_scope = l.intent_scope
            AND (h.relayed_revision > l.revision OR (h.relayed_at IS NOT NULL AND h.revision > l.revision)))
        OR EXISTS (
          SELECT FROM "waybill".outbox_events AS n
          WHERE n.aggregate_type = l.aggregate_type AND n.aggregate_id = l.aggregate_id
            AND n.intent_scope = l.intent_scope AND n.revision > l.revision AND n.processed_at IS NOT NULL)
      ) AS overtaken
    FROM letters AS l`

const wake = {
  raised: `UPDATE "waybill".outbox_buckets AS k SET rescan = k.rescan + 1
    WHERE k.bucket IN (SELECT c.bucket FROM changed AS c)
    RETURNING k.bucket`,
  woken: `SELECT pg_notify('waybill_' || $4::text::regclass::oid, 'buckets') FROM (SELECT FROM raised LIMIT 1) AS r`,
}

const record = (action: string, details = '') => `INSERT INTO "waybill".decisions
      (action, aggregate_type, aggregate_id, revision, intent_scope, event_id, decided_by, reason, details)
    SELECT '${action}', l.aggregate_type, l.aggregate_id, l.revision,
           CASE WHEN l.revision IS NOT NULL THEN l.intent_scope END, l.id, $2::text, $3::text,
           jsonb_build_object('attempts', l.attempts, 'held', l.holds, 'error', left(l.last_error, 500)${details})
    FROM letters AS l JOIN changed AS c ON c.id = l.id`

const outcomes = `SELECT j.id::text AS "id", j.overtaken AS "overtaken"
  FROM judged AS j LEFT JOIN woken ON true`

/** Back to pending at the old place, as if never tried; `last_error` stays as the last thing that is known. */
export const retryStatement = steps(
  {
    ...locks,
    judged,
    changed: `UPDATE "waybill".outbox_events AS e
    SET dead_at = NULL, holds = false, attempts = 0, crashes = 0, retry_after = NULL, last_attempt_at = NULL
    FROM judged AS j WHERE e.id = j.id AND NOT j.overtaken
    RETURNING e.id, e.bucket`,
    ...wake,
    recorded: record('retried', `, 'allowOlder', $5::boolean`),
  },
  outcomes,
)

/** Given up: the row stays, and one that held its aggregate lets it go. */
export const discardStatement = steps(
  {
    ...locks,
    judged: 'SELECT l.id, l.holds, false AS overtaken FROM letters AS l',
    changed: `UPDATE "waybill".outbox_events AS e SET discarded_at = clock_timestamp(), holds = false
    FROM judged AS j WHERE e.id = j.id
    RETURNING e.id, CASE WHEN j.holds THEN e.bucket END AS bucket`,
    ...wake,
    recorded: record('discarded'),
  },
  outcomes,
)

function steps(named: Readonly<Record<string, string>>, select: string): string {
  const list = Object.entries(named).map(([name, sql]) => `${name} AS (\n    ${sql}\n  )`)
  return `WITH ${list.join(', ')}\n  ${select}`
}
