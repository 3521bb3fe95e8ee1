import { createTelemetry, type TelemetryEventName, type TelemetryEvents } from '../../src/telemetry/events.ts'
import { type Relay, type RelayOptions, createRelay } from '../../src/relay/index.ts'
import { eventually } from '../faults/kit.ts'
import { atEndOfFile } from '../support/cleanups.ts'
import type { TestDatabase } from '../support/postgres.ts'

export interface TestRelay extends Relay {
  /** Everything that was emitted under this name so far. */
  events<Name extends TelemetryEventName>(name: Name): TelemetryEvents[Name][]
  /** Resolves with the first event of this name, also one from before, that `matches`. */
  until<Name extends TelemetryEventName>(
    name: Name,
    matches?: (event: TelemetryEvents[Name], all: TelemetryEvents[Name][]) => boolean,
  ): Promise<TelemetryEvents[Name]>
}

/** A relay on a test's database that remembers what it told; stopped at the end of the test file. */
export function testRelay(
  database: Pick<TestDatabase, 'url' | 'schema'>,
  options: Omit<RelayOptions, 'databaseUrl'>,
): TestRelay {
  const telemetry = createTelemetry()
  const seen: { name: TelemetryEventName; event: unknown }[] = []
  telemetry.onAny((name, event) => void seen.push({ name, event }))
  const relay = createRelay({
    databaseUrl: database.url,
    schema: database.schema,
    retryBaseMs: 20,
    retryMaxMs: 200,
    probeMaxMs: 200,
    telemetry,
    ...options,
  })
  atEndOfFile(() => relay.stop({ graceMs: 500 }).then(() => undefined))
  const events = <Name extends TelemetryEventName>(name: Name) =>
    seen.filter((item) => item.name === name).map((item) => item.event as TelemetryEvents[Name])
  return {
    ...relay,
    events,
    until: (name, matches = () => true) =>
      new Promise((resolve) => {
        const check = () => {
          const all = events(name)
          const found = all.find((event) => matches(event, all))
          if (found === undefined) return false
          resolve(found)
          return true
        }
        if (check()) return
        // After the listener that remembers: this one finds what it waits for in there.
        const off = telemetry.onAny((emitted) => {
          if (emitted === name && check()) off()
        })
      }),
  }
}

export interface NewEvent {
  aggregate?: string
  type?: string
  aggregateType?: string
  payload?: unknown
}

/** Writes events by plain SQL, as any language may. Answers their ids. */
export async function insertEvents(database: TestDatabase, events: readonly NewEvent[]): Promise<string[]> {
  const rows = await database.rows<{ id: string }>(
    `INSERT INTO "waybill".outbox_events (aggregate_type, aggregate_id, event_type, payload)
     SELECT e->>'aggregateType', e->>'aggregate', e->>'type', e->'payload'
     FROM jsonb_array_elements($1::jsonb) WITH ORDINALITY AS x(e, n) ORDER BY n RETURNING id`,
    [
      JSON.stringify(
        events.map(
          ({ aggregate = 'a-1', type = 'order.created', aggregateType = 'order', payload = {} }) => ({
            aggregate,
            type,
            aggregateType,
            payload,
          }),
        ),
      ),
    ],
  )
  return rows.map((row) => row.id)
}

export interface EventRow {
  id: string
  aggregate_id: string
  attempts: number
  crashes: number
  last_error: string | null
  receipt: string | null
  published: boolean
  dead: boolean
  holds: boolean
}

/** The bookkeeping of all events, in position order. */
export function readEvents(database: TestDatabase): Promise<EventRow[]> {
  return database.rows<EventRow>(
    `SELECT id, aggregate_id, attempts, crashes, last_error, receipt, processed_at IS NOT NULL AS published,
            dead_at IS NOT NULL AS dead, holds
     FROM "waybill".outbox_events ORDER BY position`,
  )
}

/** Numbers of the form {"n": 1} in bodies. */
export function numbers(bodies: readonly string[]): number[] {
  return bodies.map((body) => (JSON.parse(body) as { n: number }).n)
}

/** 1 to `count`. */
export function upTo(count: number): number[] {
  return Array.from({ length: count }, (_, i) => i + 1)
}

/**
 * Resolves once the relay sleeps until it is notified. That it says so on the database is not enough: it looks once
 * more after that, and the notification of an event that this look finds wakes nobody.
 */
export async function untilAsleep(database: TestDatabase): Promise<void> {
  await eventually('the relay sleeps', async () => {
    const [row] = await database.rows<{ asleep: boolean }>(
      `SELECT EXISTS (SELECT FROM "waybill".outbox_relays WHERE asleep_until > clock_timestamp())
              AND NOT EXISTS (
                SELECT FROM pg_stat_activity
                WHERE datname = current_database() AND application_name = 'waybill read'
                  AND (state <> 'idle' OR query LIKE '%SET asleep_until%' OR query LIKE '%AS drawn%')
              ) AS asleep`,
    )
    return row!.asleep
  })
}
