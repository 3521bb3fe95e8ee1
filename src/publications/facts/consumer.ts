import type { Connection } from '../../database/connection.ts'
import { inSchema, quoteIdentifier } from '../../database/identifiers.ts'
import { type EventKey, type PublicationKey, type TraceKey, eventOf } from '../key.ts'
import { type ProjectionPlace, quoteTable } from '../publication.ts'
import { typeOfColumn } from './source.ts'

export type ConsumerResult = 'applied' | 'stale' | 'rejected' | 'parked'

/** What a consumer recorded of one revision. */
export interface ConsumerFact {
  /** Null: nothing, it has not received it or not finished it. */
  readonly result: ConsumerResult | null
  readonly eventId: string | null
  readonly attempts: number
  readonly error: string | null
  readonly processedAt: string | null
  /** How many events of this revision it applied; more than one shows twice. */
  readonly applied: number
  /** False: it has no handler for an event of this type, so nothing is to be expected. Asked without a revision only. */
  readonly handles: boolean | null
}

export async function findConsumer(
  db: Connection,
  schema: string,
  consumer: string,
  key: PublicationKey,
): Promise<ConsumerFact> {
  const { rows } = await db.query<ConsumerFact & { result: ConsumerResult }>(
    inSchema(
      `SELECT p.result AS "result", p.event_id AS "eventId", p.attempts AS "attempts", p.error AS "error",
              to_char(p.processed_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS "processedAt",
              (count(*) FILTER (WHERE p.result = 'applied') OVER ())::int AS "applied", NULL AS "handles"
       FROM "waybill".processed_events AS p
       WHERE p.consumer = $1::text AND p.aggregate_type = $2::text AND p.aggregate_id = $3::text
         AND p.revision = $4::text::bigint
       ORDER BY p.processed_at DESC LIMIT 1`,
      schema,
    ),
    [consumer, key.type, key.id, String(key.revision)],
  )
  return rows[0] ?? nothing
}

const nothing: ConsumerFact = {
  ...{ result: null, eventId: null, attempts: 0, error: null, processedAt: null, applied: 0, handles: null },
}

/** What a consumer recorded of an event without a revision. Primary keys of both tables. */
export async function findConsumerOfEvent(
  db: Connection,
  schema: string,
  consumer: string,
  { eventId, eventType }: EventKey,
): Promise<ConsumerFact> {
  const { rows } = await db.query<ConsumerFact>(
    inSchema(
      `SELECT p.result AS "result", p.event_id AS "eventId", coalesce(p.attempts, 0) AS "attempts", p.error AS "error",
              to_char(p.processed_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS "processedAt",
              (p.result IS NOT DISTINCT FROM 'applied')::int AS "applied",
              (SELECT c.handlers && ARRAY[$3::text, '*'] FROM "waybill".consumers AS c WHERE c.consumer = $1::text)
                AS "handles"
       FROM (SELECT) AS always
       LEFT JOIN "waybill".processed_events AS p ON p.consumer = $1::text AND p.event_id = $2::text`,
      schema,
    ),
    [consumer, eventId, eventType],
  )
  return rows[0] ?? nothing
}

/**
 * The consumers with tables in the outbox's own database that handle the type of an event: asked where none is
 * configured. None once retention has removed the event.
 */
export async function findConsumersHere(
  db: Connection,
  schema: string,
  key: TraceKey,
): Promise<readonly { readonly name: string }[]> {
  const { where, values } = eventOf(key)
  const { rows } = await db.query<{ name: string }>(
    inSchema(
      `SELECT c.consumer AS "name" FROM "waybill".consumers AS c
       WHERE c.handlers && ARRAY(
         SELECT unnest(ARRAY[e.event_type, '*']) FROM "waybill".outbox_events AS e WHERE ${where})
       ORDER BY c.consumer LIMIT 20`,
      schema,
    ),
    values,
  )
  return rows
}

/** What a projection holds of an aggregate. */
export interface ProjectionFact {
  /** Decimal text; null: it does not know the aggregate, or what it shows is not known since a release. */
  readonly revision: string | null
  /** It was released from waiting for the revisions up to this one, and has applied none since; otherwise null. */
  readonly skippedTo: string | null
  readonly appliedAt: string | null
  /** Rows of the aggregate in the projection's own table; null where that is not configured. */
  readonly rows: number | null
}

/** What the row `p` of projection_revisions shows. Without an event it was released up to there and shows less. */
export const shownRevisionSql = `CASE WHEN p.event_id <> '' THEN p.revision END`

export async function findProjection(
  db: Connection,
  schema: string,
  projection: ProjectionPlace,
  key: TraceKey,
): Promise<ProjectionFact> {
  const { rows } = await db.query<Omit<ProjectionFact, 'rows'>>(
    inSchema(
      `SELECT ${shownRevisionSql}::text AS "revision",
              CASE WHEN p.event_id = '' THEN p.revision END::text AS "skippedTo",
              to_char(p.applied_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS "appliedAt"
       FROM "waybill".projection_revisions AS p
       WHERE p.projection = $1::text AND p.aggregate_type = $2::text AND p.aggregate_id = $3::text`,
      schema,
    ),
    [projection.name, key.type, key.id],
  )
  return {
    revision: rows[0]?.revision ?? null,
    skippedTo: rows[0]?.skippedTo ?? null,
    appliedAt: rows[0]?.appliedAt ?? null,
    rows:
      projection.table === undefined ? null : await countRows(db, projection.table, projection.id, key.id),
  }
}

async function countRows(db: Connection, table: string, column = 'id', id: string): Promise<number> {
  const from = quoteTable(table)
  await typeOfColumn(db, { from, column: quoteIdentifier(column), table, option: 'projections' })
  const { rows } = await db.query<{ count: number }>(
    `SELECT count(*)::int AS count FROM (
       SELECT FROM ${from} AS s WHERE s.${quoteIdentifier(column)}::text = $1::text LIMIT 1000
     ) AS s`,
    [id],
  )
  return rows[0]!.count
}
