import type { BenchDatabase } from './server.ts'

/** Where rows go: an INSERT for one row, as PL/pgSQL with the variables `i` and `aggregate` (text). */
export interface FillTarget {
  insert: string
  table: string
}

/** An event of about 300 bytes. */
const payload = `jsonb_build_object('orderId', aggregate, 'number', i, 'note', repeat('x', 240))`

export const articleTarget: FillTarget = {
  table: 'article_events',
  insert: `INSERT INTO article_events (aggregate_type, aggregate_id, event_type, payload)
           VALUES ('order', aggregate, 'order.created', ${payload})`,
}

/** A UUIDv7 (RFC 9562, section 5.7), as the library gives to each event: milliseconds since 1970, then random bits. */
const timeOrderedId = `(lpad(to_hex((extract(epoch FROM clock_timestamp()) * 1000)::bigint), 12, '0') || '7'
                        || right(replace(gen_random_uuid()::text, '-', ''), 19))::uuid`

/** Events as the library writes them. */
export const waybillTarget: FillTarget = {
  table: 'waybill.outbox_events',
  insert: `INSERT INTO waybill.outbox_events (id, aggregate_type, aggregate_id, event_type, payload)
           VALUES (${timeOrderedId}, 'order', aggregate, 'order.created', ${payload})`,
}

/** Events as a plain INSERT writes them, with the default of the column: ids at random. */
export const randomIdsTarget: FillTarget = {
  table: 'waybill.outbox_events',
  insert: `INSERT INTO waybill.outbox_events (aggregate_type, aggregate_id, event_type, payload)
           VALUES ('order', aggregate, 'order.created', ${payload})`,
}

/** What its add_job() inserts for a job without a queue and a key. The function itself scans the table each time. */
export const graphileTarget: FillTarget = {
  table: 'graphile_worker._private_jobs',
  insert: `INSERT INTO graphile_worker._private_jobs (task_id, payload, run_at, max_attempts, priority)
           SELECT t.id, ${payload}::json, now(), 25, 0
           FROM graphile_worker._private_tasks AS t WHERE t.identifier = 'event'`,
}

/**
 * Writes the same rows into any target, one by one, every row in a transaction of its own. The commits do not wait for the
 * disk; what is written is the same.
 */
export async function fill(
  database: BenchDatabase,
  { insert }: FillTarget,
  { rows, aggregates }: { rows: number; aggregates: number },
): Promise<void> {
  await database.query(`
    CREATE OR REPLACE PROCEDURE bench_fill(rows int, aggregates int) LANGUAGE plpgsql AS $$
    DECLARE
      aggregate text;
    BEGIN
      FOR i IN 1 .. rows LOOP
        aggregate := 'o-' || (i::bigint * 7919) % aggregates;
        ${insert};
        COMMIT;
      END LOOP;
    END $$`)
  await database.query('SET synchronous_commit = off')
  await database.query('CALL bench_fill($1, $2)', [rows, aggregates])
  await database.query('RESET synchronous_commit')
}

/** Reads a table and its indexes into the server's memory, and lets the disk come to rest. */
export async function warmCaches(database: BenchDatabase, table: string): Promise<void> {
  await database.query('CREATE EXTENSION IF NOT EXISTS pg_prewarm')
  await database.query(
    `SELECT pg_prewarm(c.oid) FROM pg_class AS c
     WHERE c.oid = $1::regclass OR c.oid IN (SELECT indexrelid FROM pg_index WHERE indrelid = $1::regclass)`,
    [table],
  )
  await database.query('CHECKPOINT')
}
