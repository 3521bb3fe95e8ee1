import { inSchema } from '../database/identifiers.ts'
import type { Store } from './store.ts'

/** Rows of one statement. */
const chunk = 1_000

/** True only after the consumer has been at work for long enough since its last long stop; see `registration.ts`. */
const allowed = `
  EXISTS (SELECT FROM "waybill".consumers AS c WHERE c.consumer = $1::text
          AND c.resumed_at + greatest(c.stopped_for, interval '1 day') < clock_timestamp())`

/** What is kept whole may yet be put back: its result stays with it. Index processed_events_processed_at. */
const cleanInbox = `
  DELETE FROM "waybill".processed_events AS p USING (
    SELECT old.event_id FROM "waybill".processed_events AS old
    WHERE old.consumer = $1::text
      AND old.processed_at < clock_timestamp() - $2::text::int * interval '1 day' AND ${allowed}
      AND NOT EXISTS (SELECT FROM "waybill".consumer_messages AS m
                      WHERE m.consumer = old.consumer AND m.event_id = old.event_id AND m.state <> 'failing')
    ORDER BY old.processed_at LIMIT ${chunk} FOR UPDATE SKIP LOCKED
  ) AS doomed
  WHERE p.consumer = $1::text AND p.event_id = doomed.event_id
  RETURNING 1 AS gone`

const cleanEffects = `
  DELETE FROM "waybill".consumer_effects AS e USING (
    SELECT old.effect_key FROM "waybill".consumer_effects AS old
    WHERE old.consumer = $1::text
      AND old.done_at < clock_timestamp() - $2::text::int * interval '1 day' AND ${allowed}
      AND NOT EXISTS (SELECT FROM "waybill".consumer_messages AS m
                      WHERE m.consumer = old.consumer AND m.event_id = old.event_id)
    ORDER BY old.done_at LIMIT ${chunk}
  ) AS doomed
  WHERE e.consumer = $1::text AND e.effect_key = doomed.effect_key
  RETURNING 1 AS gone`

/** Tries of events that never came again. */
const cleanTries = `
  DELETE FROM "waybill".consumer_messages
  WHERE consumer = $1::text AND state = 'failing' AND ${allowed}
    AND changed_at < clock_timestamp() - $2::text::int * interval '1 day'
  RETURNING 1 AS gone`

export interface CleanOptions<Tx> {
  store: Store<Tx>
  schema: string
  consumer: string
  dedupeDays: number
  signal: AbortSignal
}

/** Removes what is older than the dedupe memory has to be, in small chunks. Answers how many rows went. */
export async function cleanDedupeMemory<Tx>(options: CleanOptions<Tx>): Promise<number> {
  const { store, schema, consumer, dedupeDays, signal } = options
  let deleted = 0
  for (const statement of [cleanInbox, cleanEffects, cleanTries]) {
    const sql = inSchema(statement, schema)
    for (let gone = chunk; gone >= chunk && !signal.aborted; deleted += gone) {
      gone = (await store.query(sql, [consumer, String(dedupeDays)])).length
    }
  }
  return deleted
}
