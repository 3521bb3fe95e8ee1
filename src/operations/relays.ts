import type { Connection } from '../database/connection.ts'
import { inSchema } from '../database/identifiers.ts'

/** How a relay learns of new events; `pooled`: a transaction pooler stands between, so it polls. */
export type WakeupMode = 'notify' | 'poll' | 'pooled'

export interface DestinationState {
  readonly state: 'up' | 'down' | 'unknown'
  /** Since when, ISO 8601. */
  readonly since: string | null
  readonly error: string | null
}

/** A live relay, as it told the database with its last sign of life. */
export interface RelayStatus {
  readonly id: string
  /** For people only, like `processId`: nothing depends on them. */
  readonly host: string
  readonly processId: number
  readonly version: string
  readonly startedAt: string
  /** Counts as dead after this without another sign of life. */
  readonly expiresAt: string
  /** It waits for a notification. */
  readonly asleep: boolean
  readonly wakeup: WakeupMode | null
  /** The buckets that it owns, in order. */
  readonly buckets: readonly number[]
  readonly destinations: Readonly<Record<string, DestinationState>>
}

export interface RelaysStatus {
  readonly relays: readonly RelayStatus[]
  readonly bucketCount: number
  /** Buckets that nobody delivers from just now. */
  readonly unownedBuckets: readonly number[]
}

interface Row extends Omit<RelayStatus, 'wakeup' | 'destinations'> {
  info: { wakeup?: unknown; destinations?: unknown }
}

const iso = (column: string) => `to_char(${column} AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')`

const relaysStatement = `
  SELECT r.relay_id::text AS "id", r.host AS "host", r.process_id AS "processId", r.version AS "version",
         ${iso('r.started_at')} AS "startedAt", ${iso('r.expires_at')} AS "expiresAt",
         coalesce(r.asleep_until > clock_timestamp(), false) AS "asleep", r.info AS "info",
         ARRAY(SELECT k.bucket::int FROM "waybill".outbox_buckets AS k
               WHERE k.owner = r.relay_id AND k.leased_until > clock_timestamp() ORDER BY k.bucket) AS "buckets"
  FROM "waybill".outbox_relays AS r
  WHERE r.expires_at > clock_timestamp()
  ORDER BY r.started_at, r.relay_id`

const bucketsStatement = `
  SELECT count(*)::int AS "bucketCount",
         coalesce(array_agg(k.bucket::int ORDER BY k.bucket)
                  FILTER (WHERE k.owner IS NULL OR k.leased_until IS NULL OR k.leased_until <= clock_timestamp()),
                  '{}') AS "unownedBuckets"
  FROM "waybill".outbox_buckets AS k`

/** The live relays and who owns which bucket. */
export async function listRelays(db: Connection, schema: string): Promise<RelaysStatus> {
  const relays = await db.query<Row>(inSchema(relaysStatement, schema))
  const buckets = await db.query<{ bucketCount: number; unownedBuckets: number[] }>(
    inSchema(bucketsStatement, schema),
  )
  return { relays: relays.rows.map(toRelay), ...buckets.rows[0]! }
}

// Another version of the program may have written it: what does not have the known form is unknown, not an error.
function toRelay({ info, ...relay }: Row): RelayStatus {
  const destinations = Object.entries(isRecord(info?.destinations) ? info.destinations : {})
  return {
    ...relay,
    wakeup: oneOf(info?.wakeup, ['notify', 'poll', 'pooled']),
    destinations: Object.fromEntries(destinations.map(([name, value]) => [name, toDestination(value)])),
  }
}

function toDestination(value: unknown): DestinationState {
  const { state, since, error } = isRecord(value) ? value : {}
  return {
    state: oneOf(state, ['up', 'down', 'unknown']) ?? 'unknown',
    since: typeof since === 'string' ? since : null,
    error: typeof error === 'string' ? error : null,
  }
}

function oneOf<const T>(value: unknown, known: readonly T[]): T | null {
  return known.includes(value as T) ? (value as T) : null
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
