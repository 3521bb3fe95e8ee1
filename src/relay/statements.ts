import { inSchema } from '../database/identifiers.ts'
import { hasPatience, patienceAfter } from '../database/patience.ts'

/** The bucket of a row, as the indexes spell it. */
const bucketOf = '"waybill".outbox_bucket(e.aggregate_type, e.aggregate_id)'

// The columns of an event that the relay needs, in the order in which polling-source.ts takes them apart; NULL for what
// most rows have as default, which costs little to carry. No value that a plain INSERT may have given a row
// ('infinity') fails the read of its neighbours. A row beyond `bound` bytes comes without its payload.
const columns = (bucket: string, bound: string) => `${bucket}, e.position::text, e.id::text, e.aggregate_type,
         e.aggregate_id, e.event_type, CASE WHEN e.before < ${bound} THEN e.payload::text END,
         NULLIF(e.headers, '{}')::text, e.revision::text, e.operation_id,
         CASE WHEN isfinite(e.created_at) THEN (extract(epoch FROM e.created_at) * 1000000)::bigint::text
              ELSE e.created_at::text END,
         NULLIF(e.attempts, 0), NULLIF(e.crashes, 0),
         CASE WHEN isfinite(e.retry_after) THEN
                ceil(extract(epoch FROM e.retry_after - clock_timestamp()) * 1000)::float8
              WHEN e.retry_after > now() THEN 1e12 END`

// Bytes of the rows before this one.
const before = `coalesce(sum(pg_column_size(e.payload))
             OVER (ORDER BY e.position ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS before`

/** The bucket of the row that tells a reader to forget the positions it knows. */
export const rowReset = -1
/** The bucket of the row that tells it not to believe this server: it only reads, and may be behind. */
export const rowReadOnly = -2

const pending = 'e.processed_at IS NULL AND e.dead_at IS NULL AND e.discarded_at IS NULL'

/**
 * A transaction pooler may still have sessions with a primary that was replaced. It takes no marks, and what it says
 * is old: an aggregate of which it has no next event has perhaps one on the new primary.
 */
const onlyReads = `(current_setting('transaction_read_only') = 'on')`

/**
 * Where the numbers come from: they begin again in another file after TRUNCATE … RESTART IDENTITY, and on another
 * timeline after a promotion, which behind a transaction pooler comes without a new session.
 */
const numbering = `pg_catalog.concat_ws('/', pg_catalog.pg_relation_filenode('"waybill".outbox_events_position_seq'::regclass),
    CASE WHEN NOT pg_catalog.pg_is_in_recovery()
         THEN left(pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_lsn()), 8) END)`

/** One row before all others when what follows is not what the reader thinks; see {@link rowReset}, {@link rowReadOnly}. */
const otherSequence = (known: string) => `
  SELECT CASE WHEN ${onlyReads} THEN ${rowReadOnly} ELSE ${rowReset} END, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL::int, NULL::int, NULL::float8
  WHERE ${known}::text <> ${numbering} OR ${onlyReads}
  UNION ALL`

/**
 * Index outbox_events_pending: one bounded range scan for each bucket, which starts above what the owner has seen, so
 * that neither processed rows nor dead index entries are walked. $4 bounds the bytes that each may bring into
 * memory: the first row always comes, but with 0, a row beyond the bound comes without its payload and is not used. The nested
 * loop gives each bucket's rows in order; the reader checks that.
 */
const read = (skip: string) => `
  ${otherSequence('$5')}
  SELECT ${columns('b.bucket', 'b.bytes')}
  FROM unnest($1::int[], $2::bigint[], $3::int[], $4::bigint[]) AS b(bucket, floor, most, bytes)
  CROSS JOIN LATERAL (
    SELECT e.*, ${before}
    FROM (
      SELECT e.* FROM "waybill".outbox_events AS e
      WHERE ${bucketOf} = b.bucket AND e.position > b.floor AND ${pending} ${skip}
      ORDER BY e.position LIMIT b.most
    ) AS e
  ) AS e`

// Not spelt like the predicate of an index: while few rows are pending and an old snapshot keeps dead entries, the
// planner would rather walk all of outbox_events_pending for each row than look it up by its primary key.
const unsettled = 'coalesce(e.processed_at, e.dead_at, e.discarded_at) IS NULL'

export function createStatements(schema: string) {
  const sql = (text: string) => inSchema(text, schema)
  return {
    read: sql(read('')),
    readSkipping: sql(
      read(`AND NOT EXISTS (SELECT FROM unnest($6::text[], $7::text[], $8::bigint[]) AS s(type, id, start)
              WHERE s.type = e.aggregate_type AND s.id = e.aggregate_id AND e.position >= s.start)`),
    ),

    // Index outbox_events_pending, from the aggregate's own position on.
    readAggregates: sql(`
      ${otherSequence('$7')}
      SELECT ${columns('a.bucket', '$6::bigint')}
      FROM unnest($1::int[], $2::text[], $3::text[], $4::bigint[], $5::int[]) AS a(bucket, type, id, start, most)
      CROSS JOIN LATERAL (
        SELECT e.*, ${before} FROM (
          SELECT e.* FROM "waybill".outbox_events AS e
          WHERE ${bucketOf} = a.bucket AND e.position >= a.start AND ${pending}
            AND e.aggregate_type = a.type AND e.aggregate_id = a.id
          ORDER BY e.position LIMIT a.most
        ) AS e
      ) AS e`),

    // Index outbox_events_holding. That it is dead is not spelt like the predicate of outbox_events_dead: a planner whose
    // statistics are from before the first dead letter would as soon go through all of them.
    readHeld: sql(`
      SELECT ${rowReadOnly}, NULL, NULL WHERE ${onlyReads}
      UNION ALL
      SELECT DISTINCT ${bucketOf}::int, e.aggregate_type, e.aggregate_id FROM "waybill".outbox_events AS e
      WHERE ${bucketOf} = ANY ($1::int[]) AND e.holds AND e.processed_at IS NULL AND e.discarded_at IS NULL
        AND coalesce(e.dead_at, e.discarded_at) IS NOT NULL`),

    // What is due in the buckets of others, up to a thousand. Index outbox_events_pending.
    dueElsewhere: sql(`
      SELECT count(*)::int AS due FROM (
        SELECT FROM "waybill".outbox_buckets AS k
        CROSS JOIN LATERAL (
          SELECT FROM "waybill".outbox_events AS e
          WHERE ${bucketOf} = k.bucket AND ${pending} AND (e.retry_after IS NULL OR e.retry_after <= now())
          ORDER BY e.position LIMIT 1000
        ) AS e
        WHERE k.owner IS DISTINCT FROM $1::text::uuid
        LIMIT 1000
      ) AS e`),

    // The sequence first, then whoever holds a writer's lock on the table: a transaction takes that lock before
    // it draws a number, so when all of these have ended, every number up to the sample is decided. The
    // reference to s in the subquery keeps this order.
    sampleWriters: sql(`
      SELECT CASE WHEN s.is_called THEN s.last_value ELSE s.last_value - 1 END::text AS drawn,
             ARRAY(SELECT l.virtualtransaction FROM pg_catalog.pg_locks AS l
                   WHERE s.last_value IS NOT NULL AND l.locktype = 'relation' AND l.mode = 'RowExclusiveLock'
                     AND l.granted AND l.relation = '"waybill".outbox_events'::regclass
                     AND l.database = (SELECT d.oid FROM pg_catalog.pg_database AS d WHERE d.datname = current_database())
             ) AS writers,
             ${numbering} AS sequence, ${onlyReads} AS "onlyReads"
      FROM "waybill".outbox_events_position_seq AS s`),

    // One relay's sign of life; answers how many others live.
    heartbeat: sql(`
      WITH me AS (
        INSERT INTO "waybill".outbox_relays AS r (relay_id, host, process_id, version, expires_at, info)
        VALUES ($1::text::uuid, $2, $3::text::int, $4, clock_timestamp() + $5::text::float8 * interval '1 millisecond', $6::text::jsonb)
        ON CONFLICT (relay_id) DO UPDATE SET expires_at = excluded.expires_at, info = excluded.info
      )
      SELECT (extract(epoch FROM clock_timestamp()) * 1000)::float8 AS now,
             (SELECT count(*)::int FROM "waybill".outbox_buckets) AS buckets,
             (SELECT count(*)::int FROM "waybill".outbox_relays AS r
              WHERE r.expires_at > clock_timestamp() AND r.relay_id <> $1::text::uuid) AS others`),

    // Always in the order of the buckets, like every statement that locks them: no deadlock.
    renew: sql(`
      UPDATE "waybill".outbox_buckets AS b
      SET leased_until = clock_timestamp() + $2::text::float8 * interval '1 millisecond',
          read_at = CASE WHEN $3::text::boolean THEN clock_timestamp() ELSE b.read_at END,
          suspected = CASE WHEN b.bucket = ANY ($4::int[]) THEN NULL ELSE b.suspected END
      FROM (SELECT k.bucket FROM "waybill".outbox_buckets AS k WHERE k.owner = $1::text::uuid
            ORDER BY k.bucket FOR NO KEY UPDATE) AS mine
      WHERE b.bucket = mine.bucket
      RETURNING b.bucket, b.epoch::text, b.rescan::text, b.suspected::text`),

    // `suspected` is a relay whose lease ran out, and stays until the events that it may have had under way are tried
    // again, whoever owns the bucket by then.
    take: sql(`
      UPDATE "waybill".outbox_buckets AS b
      SET owner = $1::text::uuid, epoch = b.epoch + 1,
          suspected = CASE WHEN b.owner <> $1::text::uuid THEN b.owner ELSE b.suspected END,
          leased_until = clock_timestamp() + $2::text::float8 * interval '1 millisecond'
      FROM (SELECT k.bucket FROM "waybill".outbox_buckets AS k
            WHERE k.owner IS NULL OR k.leased_until < clock_timestamp()
            ORDER BY k.bucket LIMIT $3::text::int FOR NO KEY UPDATE SKIP LOCKED) AS free
      WHERE b.bucket = free.bucket
      RETURNING b.bucket, b.epoch::text, b.rescan::text, b.suspected::text`),

    release: sql(`
      UPDATE "waybill".outbox_buckets AS b SET owner = NULL, leased_until = NULL,
             suspected = CASE WHEN b.bucket = ANY ($3::int[]) THEN NULL ELSE b.suspected END
      FROM (SELECT k.bucket FROM "waybill".outbox_buckets AS k
            WHERE k.owner = $1::text::uuid AND k.bucket = ANY ($2::int[])
            ORDER BY k.bucket FOR NO KEY UPDATE) AS mine
      WHERE b.bucket = mine.bucket
      RETURNING pg_notify('waybill_' || '"waybill".outbox_events'::regclass::oid, 'buckets')`),

    leave: sql(`DELETE FROM "waybill".outbox_relays WHERE relay_id = $1::text::uuid`),

    // A lost flag costs a NOTIFY too many or one poll: not worth a wait for the disk.
    sleep: sql(`
      WITH quick AS MATERIALIZED (SELECT set_config('synchronous_commit', 'off', true))
      UPDATE "waybill".outbox_relays
      SET asleep_until = CASE WHEN $2::text IS NULL THEN NULL
                              ELSE clock_timestamp() + $2::text::float8 * interval '1 millisecond' END
      WHERE relay_id = $1::text::uuid AND EXISTS (SELECT FROM quick)`),

    // The settlements. Each takes effect only under current tokens, for all of its events or for none: the buckets'
    // rows are share-locked, so no other relay can take one between the check and the commit. Answers the buckets
    // that are still ours. Primary key; in position order, as the rows lie.
    markPublished: settlement(
      sql,
      marks({ id: 'uuid', receipt: 'text' }),
      `processed_at = now(), receipt = m.receipt, crashes = 0, retry_after = NULL`,
    ),
    // The same, and the head of a publication learns that its revision is out. A head that a writer holds is left
    // alone (the row itself says it; the pruner repeats this before the row goes): delivery never waits for a writer.
    markPublishedIntents: settlement(
      sql,
      marks({ id: 'uuid', receipt: 'text' }),
      `processed_at = now(), receipt = m.receipt, crashes = 0, retry_after = NULL`,
      `RETURNING e.id, e.aggregate_type, e.aggregate_id, e.intent_scope, e.revision
      ), heads AS (
        SELECT h.aggregate_type, h.aggregate_id, h.intent_scope, m.id, m.revision
        FROM marked AS m
        JOIN "waybill".publication_heads AS h
          ON h.aggregate_type = m.aggregate_type AND h.aggregate_id = m.aggregate_id AND h.intent_scope = m.intent_scope
        WHERE m.revision IS NOT NULL
        FOR UPDATE OF h SKIP LOCKED
      ), told AS (
        UPDATE "waybill".publication_heads AS h
        SET relayed_at = CASE WHEN h.event_id = n.id THEN now() ELSE h.relayed_at END,
            relayed_revision = greatest(h.relayed_revision, n.revision)
        FROM (SELECT DISTINCT ON (aggregate_type, aggregate_id, intent_scope) * FROM heads
              ORDER BY aggregate_type, aggregate_id, intent_scope, revision DESC) AS n
        WHERE h.aggregate_type = n.aggregate_type AND h.aggregate_id = n.aggregate_id AND h.intent_scope = n.intent_scope`,
    ),
    // The same for those who want no history. Primary key.
    removePublished: settling(sql, `DELETE FROM "waybill".outbox_events AS e USING ${marks({ id: 'uuid' })}`),
    markFailed: settlement(
      sql,
      marks({ id: 'uuid', attempts: 'int', pause: 'float8', error: 'text' }),
      `attempts = m.attempts, crashes = 0, last_attempt_at = now(), last_error = m.error,
       retry_after = now() + m.pause * interval '1 millisecond'`,
      '',
      '$8',
    ),
    markDead: settlement(
      sql,
      marks({ id: 'uuid', attempts: 'int', holds: 'boolean', error: 'text' }),
      `attempts = m.attempts, crashes = 0, dead_at = now(), holds = m.holds, last_attempt_at = now(),
       last_error = m.error, retry_after = NULL`,
      '',
      '$8',
    ),
    // Of these events those that somebody else has locked.
    findLocked: sql(`
      WITH free AS MATERIALIZED (
        SELECT e.id FROM "waybill".outbox_events AS e WHERE e.id = ANY ($1::uuid[]) FOR UPDATE SKIP LOCKED
      )
      SELECT e.id::text FROM "waybill".outbox_events AS e
      WHERE e.id = ANY ($1::uuid[]) AND NOT EXISTS (SELECT FROM free AS f WHERE f.id = e.id)`),

    // Before an event of a bucket whose owner died is tried: should it kill this relay too, that is on record. The
    // number itself, so that a statement whose answer was lost counts no second death when it is sent again. And
    // after it, when the relay lives.
    markSuspect: settlement(sql, marks({ id: 'uuid', crashes: 'int' }), 'crashes = m.crashes'),

    // Replays that are due in these buckets. Index replays_open; few are ever open.
    readReplays: sql(`
      SELECT ${columns(bucketOf, '1')}, e.number, e.tries
      FROM (
        SELECT e.*, 0::bigint AS before, r.number, r.attempts AS tries, r.requested_at
        FROM "waybill".replays AS r
        JOIN "waybill".outbox_events AS e ON e.id = r.event_id
        WHERE r.state = 'pending' AND (r.retry_after IS NULL OR r.retry_after <= clock_timestamp())
      ) AS e
      WHERE ${bucketOf} = ANY ($1::int[]) AND NOT ${onlyReads}
      ORDER BY e.requested_at LIMIT 100`),

    // Under the current token of the event's bucket, like every settlement.
    markReplay: sql(`
      WITH fence AS MATERIALIZED (${fence('NULL')}), patience AS (${patienceAfter('fence')})
      UPDATE "waybill".replays AS r
      SET state = $6::text, attempts = $7::text::int,
          retry_after = clock_timestamp() + $8::text::float8 * interval '1 millisecond',
          relayed_at = CASE WHEN $6::text = 'relayed' THEN now() END,
          receipt = $9::text, last_error = $10::text
      WHERE r.event_id = $4::text::uuid AND r.number = $5::text::int AND r.state = 'pending'
        AND (SELECT count(*) FROM fence) = cardinality($2::int[]) AND ${hasPatience}`),

    // Five equal refusals in a row: the destination is wrong, not the events. As a retry by a person does, it asks for
    // no token: a bucket may have another owner by now, who learns of it by `rescan`.
    restoreDead: sql(`
      WITH buckets AS MATERIALIZED (
        SELECT k.bucket FROM "waybill".outbox_buckets AS k WHERE k.bucket = ANY ($2::int[])
        ORDER BY k.bucket FOR NO KEY UPDATE
      ), patience AS (${patienceAfter('buckets')}), restored AS (
        UPDATE "waybill".outbox_events AS e SET dead_at = NULL, holds = false, last_attempt_at = NULL
        FROM unnest((SELECT $1::uuid[])) AS m(id)
        WHERE e.id = m.id AND ${hasPatience}
          AND e.dead_at IS NOT NULL AND coalesce(e.processed_at, e.discarded_at) IS NULL
        RETURNING ${bucketOf} AS bucket
      ), raised AS (
        UPDATE "waybill".outbox_buckets AS k SET rescan = k.rescan + 1
        WHERE k.bucket IN (SELECT r.bucket FROM restored AS r)
        RETURNING k.bucket
      )
      SELECT (SELECT count(*)::int FROM restored) AS restored,
             (SELECT pg_notify('waybill_' || '"waybill".outbox_events'::regclass::oid, 'buckets')
              FROM (SELECT FROM raised LIMIT 1) AS r)`),
  }
}

export type Statements = ReturnType<typeof createStatements>

const fence = (rescans: string) => `
        SELECT k.bucket, k.rescan, coalesce(k.rescan = t.rescan, true) AS known FROM "waybill".outbox_buckets AS k
        JOIN unnest($2::int[], $3::bigint[], ${rescans}::bigint[]) AS t(bucket, epoch, rescan)
          ON t.bucket = k.bucket AND t.epoch = k.epoch
        WHERE k.owner = $1::text::uuid
        ORDER BY k.bucket FOR SHARE OF k`

/**
 * The values from $4 on as rows. Behind a subquery the planner does not see how many there are and assumes ten: it
 * looks each row up by its primary key. With the true number it would rather scan the whole table.
 */
function marks(columns: Record<string, string>): string {
  const arrays = Object.values(columns).map((type, i) => `(SELECT $${i + 4}::${type}[])`)
  return `unnest(${arrays.join(', ')}) AS m(${Object.keys(columns).join(', ')})`
}

function settlement(
  sql: (text: string) => string,
  marks: string,
  set: string,
  returning = '',
  rescans = 'NULL',
): string {
  return settling(
    sql,
    `UPDATE "waybill".outbox_events AS e SET ${set}\n        FROM ${marks}`,
    returning,
    rescans,
  )
}

/**
 * With `rescans` (a parameter: the number of the last rescan that is known of each bucket) it takes no effect either
 * once dead letters of one of the buckets were put back: what arrives late must not bury them again.
 */
function settling(sql: (text: string) => string, change: string, returning = '', rescans = 'NULL'): string {
  return sql(`
      WITH fence AS MATERIALIZED (${fence(rescans)}
      ), patience AS (${patienceAfter('fence')}), marked AS (
        ${change}
        WHERE e.id = m.id AND ${unsettled}
          AND (SELECT count(*) FROM fence AS f WHERE f.known) = cardinality($2::int[])
          AND ${hasPatience}
        ${returning}
      )
      SELECT ARRAY(SELECT f.bucket::int FROM fence AS f) AS held,
             (SELECT json_object_agg(f.bucket, f.rescan::text) FROM fence AS f WHERE NOT f.known) AS rescans`)
}
