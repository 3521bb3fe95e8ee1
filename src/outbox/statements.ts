import { inSchema } from '../database/identifiers.ts'
import type { EncodedEvent } from './event.ts'

/** The statements of the write side. Each takes at most one text and answers one text: that works alike in every driver. */
export interface OutboxStatements {
  readonly insert: string
  readonly publishIntents: string
  readonly lockAggregates: string
  readonly enterTransaction: string
  readonly accept: string
}

/**
 * Any number of events in one statement that writes only inside a transaction: there, a transaction that has
 * written has an id, and in autocommit nothing has been written yet. `guard` is materialised, so it is asked before
 * the first row is written. Neither RETURNING nor ON CONFLICT: a writer needs INSERT and nothing else, and the
 * answer is a row of `guard`, for drivers that give rows but no counts; as text, whatever parsers are set. The
 * positions follow the order of the call.
 */
const insert = `
WITH guard AS MATERIALIZED (
  SELECT pg_current_xact_id_if_assigned() IS NOT NULL AS inside
), written AS (
  INSERT INTO "waybill".outbox_events
    (id, aggregate_type, aggregate_id, event_type, payload, headers, operation_id)
  SELECT (e.value ->> 'id')::uuid, e.value ->> 'aggregate_type', e.value ->> 'aggregate_id',
         e.value ->> 'event_type', e.value -> 'payload', e.value -> 'headers', e.value ->> 'operation_id'
  FROM guard, jsonb_array_elements($1::text::jsonb) WITH ORDINALITY AS e(value, ordinality)
  WHERE guard.inside
  ORDER BY e.ordinality
)
SELECT inside::text AS answer FROM guard`

/** As `insert`, for batches with revisions; what it answers is described at the function, in 0001. */
const publishIntents = `SELECT "waybill".outbox_publish_intents($1::text::jsonb)::text AS answer`

/**
 * One lock for each pair, until the transaction ends. Sorted, so that two batches cannot wait for each other; a
 * statement of its own, so that every position is drawn after the wait. 1463898 keeps the keys apart from those of
 * other programs that hash into the same space; a collision costs a wait and nothing else.
 */
const lockAggregates = `
SELECT count(pg_advisory_xact_lock(pairs.key))::text AS answer FROM (
  SELECT DISTINCT hashtextextended((e.value ->> 1) COLLATE "C",
                                   hashtextextended((e.value ->> 0) COLLATE "C", 1463898)) AS key
  FROM jsonb_array_elements($1::text::jsonb) AS e(value)
  ORDER BY key
) AS pairs`

/** Gives the transaction an id although it has written nothing yet; in autocommit the id ends with the statement. */
const enterTransaction = 'SELECT pg_current_xact_id()::text AS answer'

/** The head is locked by this transaction already: it published the revision. Answers whether there is such a head. */
const accept = `
WITH key AS (
  SELECT $1::text::jsonb AS key
), answered AS (
  UPDATE "waybill".publication_heads AS h
  SET answered_at = clock_timestamp(), operation_id = k.key ->> 4
  FROM key AS k
  WHERE h.aggregate_type = k.key ->> 0 AND h.aggregate_id = k.key ->> 1 AND h.intent_scope = k.key ->> 2
    AND h.revision = (k.key ->> 3)::bigint
  RETURNING 1
)
SELECT (count(*) > 0)::text AS answer FROM answered`

export function createStatements(schema: string): OutboxStatements {
  return Object.freeze({
    insert: inSchema(insert, schema),
    publishIntents: inSchema(publishIntents, schema),
    lockAggregates,
    enterTransaction,
    accept: inSchema(accept, schema),
  })
}

/** The one parameter of `insert` and `publishIntents`: each payload stands in it as the JSON text that it is. */
export function encodeEvents(events: readonly EncodedEvent[]): string {
  return `[${events.map(encodeEvent).join(',')}]`
}

function encodeEvent(event: EncodedEvent): string {
  const fields = JSON.stringify({
    id: event.id,
    aggregate_type: event.aggregateType,
    aggregate_id: event.aggregateId,
    event_type: event.type,
    headers: Object.fromEntries(event.headers),
    intent_scope: event.scope,
    operation_id: event.operationId,
    revision: event.revision?.toString() ?? null,
  })
  return `${fields.slice(0, -1)},"payload":${event.payload}}`
}

/** The parameter of `lockAggregates`. */
export function encodePairs(events: readonly EncodedEvent[]): string {
  return JSON.stringify(events.map((event) => [event.aggregateType, event.aggregateId]))
}
