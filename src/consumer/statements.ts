import { inSchema } from '../database/identifiers.ts'

/**
 * The statements of the inbox. Every parameter is a text, which works alike in every driver; an empty text stands for
 * NULL where a column may be NULL.
 */
const statements = {
  /**
   * $1 consumer, $2 event, $3 $4 aggregate, $5 revision, $6 replay, $7 milliseconds since it was received. Waits for
   * another transaction that has the same event under way, and takes over when that one rolls back. Primary keys
   * of both tables. Answers what is on record about earlier tries as well.
   */
  claim: `
    WITH claimed AS (
      INSERT INTO "waybill".processed_events
        (consumer, event_id, result, aggregate_type, aggregate_id, revision, replay, attempts, received_at)
      SELECT $1::text, $2::text, 'applied', $3::text, $4::text, nullif($5::text, '')::bigint, $6::text::int,
             1 + coalesce((SELECT m.attempts FROM "waybill".consumer_messages AS m
                           WHERE m.consumer = $1::text AND m.event_id = $2::text), 0),
             clock_timestamp() - $7::text::float8 * interval '1 millisecond'
      ON CONFLICT (consumer, event_id) DO NOTHING
      RETURNING attempts
    )
    SELECT pg_current_xact_id()::text AS xid, (SELECT attempts::text FROM claimed) AS attempts`,

  /** $1 consumer, $2 event: what an earlier transaction has recorded. */
  recorded: `
    SELECT result, replay::text, error FROM "waybill".processed_events
    WHERE consumer = $1::text AND event_id = $2::text`,

  /** $1 consumer, $2 event, $3 replay: a deliberate replay is a new chance for what was refused, once. */
  claimReplay: `
    UPDATE "waybill".processed_events
    SET result = 'applied', error = NULL, replay = $3::text::int, attempts = attempts + 1,
        processed_at = clock_timestamp()
    WHERE consumer = $1::text AND event_id = $2::text AND result = 'rejected' AND replay < $3::text::int
    RETURNING attempts::text`,

  /** $1 consumer, $2 event: a message that was kept and is to be tried again, by whoever comes first. */
  claimKept: `
    UPDATE "waybill".processed_events AS p
    SET result = 'applied', error = NULL, attempts = p.attempts + 1, processed_at = clock_timestamp()
    WHERE p.consumer = $1::text AND p.event_id = $2::text AND p.result IN ('rejected', 'parked')
      AND EXISTS (SELECT FROM "waybill".consumer_messages AS m
                  WHERE m.consumer = p.consumer AND m.event_id = p.event_id AND m.state IN ('retry', 'parked', 'rebuild'))
    RETURNING p.attempts::text, pg_current_xact_id()::text AS xid`,

  /**
   * $1 consumer, $2 event: once it is handled, its tries and its message are of no interest. After the commit, and not
   * inside the transaction: above READ COMMITTED that one does not see what was noted beside it.
   */
  forget: `
    DELETE FROM "waybill".consumer_messages AS m USING "waybill".processed_events AS p
    WHERE m.consumer = $1::text AND m.event_id = $2::text
      AND p.consumer = m.consumer AND p.event_id = m.event_id AND p.result IN ('applied', 'stale')`,

  /**
   * $1 consumer, $2 event: a rebuild that is done leaves nothing behind, since no broker can bring it again. Inside the
   * transaction, so that no other process does it once more.
   */
  endRebuild: `
    DELETE FROM "waybill".processed_events WHERE consumer = $1::text AND event_id = $2::text`,

  /** $1 consumer, $2 event: after the commit; what was asked for anew meanwhile stays. */
  forgetRebuild: `
    DELETE FROM "waybill".consumer_messages AS m
    WHERE m.consumer = $1::text AND m.event_id = $2::text
      AND NOT EXISTS (SELECT FROM "waybill".processed_events AS p
                      WHERE p.consumer = m.consumer AND p.event_id = m.event_id)`,

  /** $1 consumer, $2 event, $3 note: a revision that was there already. */
  markStale: `
    UPDATE "waybill".processed_events SET result = 'stale', error = $3::text
    WHERE consumer = $1::text AND event_id = $2::text`,

  /** Fails when a statement of the handler failed; answers another id when the handler ended the transaction. */
  stillInside: `SELECT coalesce(pg_current_xact_id_if_assigned()::text, '') AS xid`,

  /** $1 consumer, $2 event: a try begins that may end the process. */
  noteTry: `
    INSERT INTO "waybill".consumer_messages (consumer, event_id, state, crashes)
    VALUES ($1::text, $2::text, 'failing', 1)
    ON CONFLICT (consumer, event_id) DO UPDATE
      SET crashes = consumer_messages.crashes + 1, changed_at = clock_timestamp()
    RETURNING attempts::text, crashes::text`,

  /** $1 consumer, $2 event: the noted try ended without a result. */
  takeBackNote: `
    UPDATE "waybill".consumer_messages SET crashes = greatest(crashes - 1, 0)
    WHERE consumer = $1::text AND event_id = $2::text`,

  /** $1 consumer, $2 event, $3 type, $4 $5 aggregate, $6 revision, $7 error: a counted failure. */
  recordFailure: `
    INSERT INTO "waybill".consumer_messages
      (consumer, event_id, state, event_type, aggregate_type, aggregate_id, revision, attempts, error)
    VALUES ($1::text, $2::text, 'failing', $3::text, $4::text, $5::text, nullif($6::text, '')::bigint, 1, $7::text)
    ON CONFLICT (consumer, event_id) DO UPDATE
      SET attempts = consumer_messages.attempts + 1, error = excluded.error, changed_at = clock_timestamp(),
          crashes = greatest(consumer_messages.crashes - 1, 0), event_type = excluded.event_type,
          aggregate_type = excluded.aggregate_type, aggregate_id = excluded.aggregate_id,
          revision = excluded.revision
    RETURNING attempts::text`,

  /**
   * $1 consumer, $2 event, $3 result, $4 type, $5 $6 aggregate, $7 revision, $8 error, $9 origin, $10 delivery,
   * $11 body as base64, $12 attempts, $13 replay, $14 state, $15 projection. The verdict and the message, together;
   * nothing when another copy was applied meanwhile.
   */
  keep: `
    WITH recorded AS (
      INSERT INTO "waybill".processed_events AS p
        (consumer, event_id, result, aggregate_type, aggregate_id, revision, error, attempts, replay)
      VALUES ($1::text, $2::text, $3::text, nullif($5::text, ''), nullif($6::text, ''), nullif($7::text, '')::bigint,
              $8::text, $12::text::int, $13::text::int)
      ON CONFLICT (consumer, event_id) DO UPDATE
        SET result = excluded.result, error = excluded.error, processed_at = clock_timestamp(),
            attempts = excluded.attempts, replay = greatest(p.replay, excluded.replay)
        WHERE p.result IN ('rejected', 'parked')
      RETURNING 1
    )
    INSERT INTO "waybill".consumer_messages AS m
      (consumer, event_id, state, event_type, aggregate_type, aggregate_id, revision, projection, attempts, error,
       origin, delivery, body)
    SELECT $1::text, $2::text, $14::text, nullif($4::text, ''), nullif($5::text, ''), nullif($6::text, ''),
           nullif($7::text, '')::bigint, nullif($15::text, ''), $12::text::int, $8::text, $9::text, $10::text::json,
           decode($11::text, 'base64')
    FROM recorded
    ON CONFLICT (consumer, event_id) DO UPDATE
      SET state = excluded.state, event_type = excluded.event_type, aggregate_type = excluded.aggregate_type,
          aggregate_id = excluded.aggregate_id, revision = excluded.revision, projection = excluded.projection,
          attempts = excluded.attempts, error = excluded.error, origin = excluded.origin,
          delivery = excluded.delivery, body = excluded.body, changed_at = clock_timestamp()
    RETURNING m.state`,

  /** $1 consumer, $2 most: messages that somebody put back, the oldest first. Index consumer_messages_retry. */
  toRetry: `
    SELECT event_id, delivery::text, encode(body, 'base64') AS body, attempts::text, projection
    FROM "waybill".consumer_messages WHERE consumer = $1::text AND state = 'retry'
    ORDER BY created_at, event_id LIMIT $2::text::int`,

  /**
   * $1 consumer, $2 most: what the source has of aggregates, for projections to rebuild. In any order, so that two
   * processes do not wait for each other, and some that fail hold nobody up. Index consumer_messages_retry.
   */
  toRebuild: `
    SELECT event_id, delivery::text, encode(body, 'base64') AS body, attempts::text, projection
    FROM "waybill".consumer_messages WHERE consumer = $1::text AND event_id = ANY (ARRAY(
      SELECT w.event_id FROM (
        SELECT m.event_id FROM "waybill".consumer_messages AS m WHERE m.consumer = $1::text AND m.state = 'rebuild'
        ORDER BY m.created_at, m.event_id LIMIT 1000
      ) AS w ORDER BY random() LIMIT $2::text::int))`,
} as const

export type InboxStatements = Readonly<Record<keyof typeof statements, string>>

export function createInboxStatements(schema: string): InboxStatements {
  const entries = Object.entries(statements).map(([name, sql]) => [name, inSchema(sql, schema)] as const)
  return Object.freeze(Object.fromEntries(entries)) as InboxStatements
}
