import { hasPatience, patienceAfter } from '../database/patience.ts'
import { bucketSql, deadSql } from '../schema/event-state.ts'

// The two actions on a chunk of dead letters, each one statement and so one transaction. $1 ids, $2 who decided,
// $3 why, $4 the table's name; for a retry $5 whether older revisions may go out after newer ones.
//
// Locks are taken in the relay's order (buckets by number, then events), so that neither waits for the other in a
// circle. `rescan` makes the owner of a bucket read it from the start; the NOTIFY makes one that sleeps look now.

// An event is looked up by the primary key, and its state is tested outside of that look-up: OFFSET 0 keeps it there.
// A planner that was told both at once, and has no statistics, believes that there is hardly any dead letter: it goes
// through all of them for each chunk, or even for each event.
const byId = (id: string, columns: string) => `SELECT ${columns}, e.dead_at, e.processed_at, e.discarded_at
      FROM "waybill".outbox_events AS e WHERE e.id = ${id} OFFSET 0`

const locks = {
  wanted: `SELECT e.id, e.bucket, e.position
    FROM unnest($1::text[]::uuid[]) AS asked(id)
    CROSS JOIN LATERAL (
      ${byId('asked.id', `e.id, ${bucketSql} AS bucket, e.position`)}
    ) AS e
    WHERE ${deadSql}`,
  buckets: `SELECT k.bucket FROM "waybill".outbox_buckets AS k
    WHERE k.bucket IN (SELECT w.bucket FROM wanted AS w)
    ORDER BY k.bucket FOR NO KEY UPDATE`,
  patience: patienceAfter('buckets'),
  // The state is tested again, now on the version that is locked.
  letters: `SELECT e.*
    FROM (SELECT w.id FROM wanted AS w JOIN buckets AS b ON b.bucket = w.bucket
      WHERE ${hasPatience} ORDER BY w.position) AS w
    CROSS JOIN LATERAL (
      ${byId('w.id', 'e.id, e.aggregate_type, e.aggregate_id, e.revision, e.intent_scope, e.attempts, e.holds')}
      FOR UPDATE
    ) AS e
    WHERE ${deadSql}`,
}

// The newest revision that is out, of each pair and scope: known to the head, or seen in the rows (indexes: the primary
// key of publication_heads, outbox_events_revision). Once for all letters of the pair, since there may be thousands of
// them: asked for each, every letter would go through those after it.
const newest = `SELECT p.aggregate_type, p.aggregate_id, p.intent_scope, greatest(
      (SELECT greatest(h.relayed_revision, CASE WHEN h.relayed_at IS NOT NULL THEN h.revision END)
       FROM "waybill".publication_heads AS h
       WHERE h.aggregate_type = p.aggregate_type AND h.aggregate_id = p.aggregate_id
         AND h.intent_scope = p.intent_scope),
      (SELECT n.revision FROM "waybill".outbox_events AS n
       WHERE n.aggregate_type = p.aggregate_type AND n.aggregate_id = p.aggregate_id
         AND n.intent_scope = p.intent_scope AND n.revision > p.lowest AND n.processed_at IS NOT NULL
       ORDER BY n.revision DESC LIMIT 1)
    ) AS revision
    FROM (
      SELECT l.aggregate_type, l.aggregate_id, l.intent_scope, min(l.revision) AS lowest
      FROM letters AS l WHERE NOT $5::boolean AND l.revision IS NOT NULL
      GROUP BY l.aggregate_type, l.aggregate_id, l.intent_scope
    ) AS p`

const judged = `SELECT l.id, l.attempts, l.holds, coalesce(n.revision > l.revision, false) AS overtaken
    FROM letters AS l
    LEFT JOIN newest AS n ON n.aggregate_type = l.aggregate_type AND n.aggregate_id = l.aggregate_id
      AND n.intent_scope = l.intent_scope`

const wake = {
  raised: `UPDATE "waybill".outbox_buckets AS k SET rescan = k.rescan + 1
    WHERE k.bucket IN (SELECT c.bucket FROM changed AS c)
    RETURNING k.bucket`,
  woken: `SELECT pg_notify('waybill_' || $4::text::regclass::oid, 'buckets') FROM (SELECT FROM raised LIMIT 1) AS r`,
}

// What a decision records of the event: as it was before.
const changedColumns = `e.aggregate_type, e.aggregate_id, e.revision, e.intent_scope, e.id, e.last_error,
              j.attempts, j.holds`

const record = (action: string, details = '') => `INSERT INTO "waybill".decisions
      (action, aggregate_type, aggregate_id, revision, intent_scope, event_id, decided_by, reason, details)
    SELECT '${action}', c.aggregate_type, c.aggregate_id, c.revision,
           CASE WHEN c.revision IS NOT NULL THEN c.intent_scope END, c.id, $2::text, $3::text,
           jsonb_build_object('attempts', c.attempts, 'held', c.holds, 'error', left(c.last_error, 500)${details})
    FROM changed AS c`

const outcomes = `SELECT j.id::text AS "id", j.overtaken AS "overtaken"
  FROM judged AS j LEFT JOIN woken ON true`

/** Back to pending at the old place, as if never tried; `last_error` stays as the last thing that is known. */
export const retryStatement = steps(
  {
    ...locks,
    newest,
    judged,
    changed: `UPDATE "waybill".outbox_events AS e
    SET dead_at = NULL, holds = false, attempts = 0, crashes = 0, retry_after = NULL, last_attempt_at = NULL
    FROM judged AS j WHERE e.id = j.id AND NOT j.overtaken
    RETURNING ${changedColumns}, ${bucketSql} AS bucket`,
    ...wake,
    recorded: record('retried', `, 'allowOlder', $5::boolean`),
  },
  outcomes,
)

/** Given up: the row stays, and one that held its aggregate lets it go. */
export const discardStatement = steps(
  {
    ...locks,
    judged: 'SELECT l.id, l.attempts, l.holds, false AS overtaken FROM letters AS l',
    changed: `UPDATE "waybill".outbox_events AS e SET discarded_at = clock_timestamp(), holds = false
    FROM judged AS j WHERE e.id = j.id
    RETURNING ${changedColumns}, CASE WHEN j.holds THEN ${bucketSql} END AS bucket`,
    ...wake,
    recorded: record('discarded'),
  },
  outcomes,
)

function steps(named: Readonly<Record<string, string>>, select: string): string {
  const list = Object.entries(named).map(([name, sql]) => `${name} AS (\n    ${sql}\n  )`)
  return `WITH ${list.join(', ')}\n  ${select}`
}
