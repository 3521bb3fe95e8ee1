import type { Connection } from '../../database/connection.ts'
import { inSchema } from '../../database/identifiers.ts'
import { type PublicationKey, type TraceKey, eventOf } from '../key.ts'

const time = (column: string) => `to_char(${column} AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')`

const valuesOf = ({ type, id, scope, revision }: PublicationKey) => [type, id, scope, String(revision)]

/** That the write API answered "accepted", as `outbox.accepted()` recorded it; known of the newest revision only. */
export interface AnswerFact {
  readonly answeredAt: string
  readonly operationId: string | null
}

export async function findAnswer(
  db: Connection,
  schema: string,
  key: PublicationKey,
): Promise<AnswerFact | null> {
  const { rows } = await db.query<AnswerFact>(
    inSchema(
      `SELECT ${time('h.answered_at')} AS "answeredAt", h.operation_id AS "operationId"
       FROM "waybill".publication_heads AS h
       WHERE h.aggregate_type = $1::text AND h.aggregate_id = $2::text AND h.intent_scope = $3::text
         AND h.revision = $4::text::bigint AND h.answered_at IS NOT NULL`,
      schema,
    ),
    valuesOf(key),
  )
  return rows[0] ?? null
}

/** A deliberate repetition of an event that was published. */
export interface ReplayFact {
  readonly number: number
  readonly state: 'pending' | 'relayed' | 'dead'
  readonly requestedBy: string
  readonly reason: string
  readonly requestedAt: string
  readonly relayedAt: string | null
  readonly lastError: string | null
  readonly receipt: string | null
}

export async function findReplays(
  db: Connection,
  schema: string,
  key: TraceKey,
): Promise<readonly ReplayFact[]> {
  const { where, values } = eventOf(key)
  const { rows } = await db.query<ReplayFact>(
    inSchema(
      `SELECT r.number AS "number", r.state AS "state", r.requested_by AS "requestedBy", r.reason AS "reason",
              ${time('r.requested_at')} AS "requestedAt", ${time('r.relayed_at')} AS "relayedAt",
              r.last_error AS "lastError", r.receipt AS "receipt"
       FROM "waybill".replays AS r
       JOIN "waybill".outbox_events AS e ON e.id = r.event_id
       WHERE ${where}
       ORDER BY r.number DESC LIMIT 20`,
      schema,
    ),
    values,
  )
  return rows.toReversed()
}

/** Who decided what about a revision, and why. */
export interface DecisionFact {
  readonly action: string
  readonly decidedBy: string
  readonly reason: string
  readonly decidedAt: string
}

export async function findDecisions(
  db: Connection,
  schema: string,
  key: TraceKey,
): Promise<readonly DecisionFact[]> {
  const { rows } = await db.query<DecisionFact>(
    inSchema(
      `SELECT d.action AS "action", d.decided_by AS "decidedBy", d.reason AS "reason",
              ${time('d.decided_at')} AS "decidedAt"
       FROM "waybill".decisions AS d
       WHERE ${
         key.revision === null
           ? 'd.event_id = $1::text::uuid'
           : `d.aggregate_type = $1::text AND d.aggregate_id = $2::text AND d.intent_scope = $3::text
         AND d.revision = $4::text::bigint`
       }
       ORDER BY d.decided_at DESC LIMIT 20`,
      schema,
    ),
    eventOf(key).values,
  )
  return rows.toReversed()
}
