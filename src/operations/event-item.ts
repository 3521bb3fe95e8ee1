import type { EventState } from '../types.ts'
import { blockedBySql, eventStateSql } from '../schema/event-state.ts'

/**
 * An event as commands, HTTP and the dashboard show it. 64-bit numbers are decimal text; times are UTC, ISO 8601,
 * to the microsecond.
 */
export interface EventItem {
  readonly id: string
  /** Order inside the aggregate, and of lists. */
  readonly position: string
  readonly state: EventState
  readonly aggregateType: string
  readonly aggregateId: string
  readonly eventType: string
  readonly revision: string | null
  readonly intentScope: string
  readonly operationId: string | null
  /** Failed deliveries that count against the event. */
  readonly attempts: number
  /** Deaths of a relay while it handled the event. */
  readonly crashes: number
  readonly createdAt: string
  readonly processedAt: string | null
  readonly lastAttemptAt: string | null
  readonly retryAfter: string | null
  readonly deadAt: string | null
  readonly discardedAt: string | null
  /** True for a dead letter that keeps the later events of its aggregate back. */
  readonly holds: boolean
  readonly lastError: string | null
  /** What the destination answered. */
  readonly receipt: string | null
  /** Only when asked for: PostgreSQL's own text of the payload. */
  readonly payload?: string
  /** Only together with the payload. */
  readonly headers?: Readonly<Record<string, unknown>>
}

/** One event with what only a single look-up tells. */
export interface EventDetail extends EventItem {
  /** The event that this one waits for, when its state is `blocked`. */
  readonly blockedBy: string | null
}

const time = (column: string) =>
  `to_char(e.${column} AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS "${camelCase(column)}"`

const columns = `e.id::text AS "id", e.position::text AS "position",
      ${eventStateSql} AS "state",
      e.aggregate_type AS "aggregateType", e.aggregate_id AS "aggregateId", e.event_type AS "eventType",
      e.revision::text AS "revision", e.intent_scope AS "intentScope", e.operation_id AS "operationId",
      e.attempts AS "attempts", e.crashes AS "crashes",
      ${['created_at', 'processed_at', 'last_attempt_at', 'retry_after', 'dead_at', 'discarded_at'].map(time).join(',\n      ')},
      e.holds AS "holds", e.last_error AS "lastError", e.receipt AS "receipt"`

const contents = `e.payload::text AS "payload", e.headers AS "headers"`

/** The select list of an {@link EventItem} of the row `e`: each column has its name already. */
export function itemColumns(withPayload: boolean): string {
  return withPayload ? `${columns},\n      ${contents}` : columns
}

/** The select list of an {@link EventDetail}. */
export function detailColumns(withPayload: boolean): string {
  return `${itemColumns(withPayload)},
      CASE WHEN e.processed_at IS NULL AND e.dead_at IS NULL AND e.discarded_at IS NULL
           THEN (${blockedBySql})::text END AS "blockedBy"`
}

function camelCase(column: string): string {
  return column.replaceAll(/_(\w)/g, (_, letter: string) => letter.toUpperCase())
}
