import type { Route, RouteRule } from '../publishing/routing.ts'
import type { Telemetry } from '../telemetry/events.ts'
import type { DestinationInput } from './destination.ts'
import type { Health } from './health.ts'
import type { RelayTuning } from './options.ts'

export interface RelayOptions extends Partial<RelayTuning> {
  /** `postgres://user:password@host:port/database`. The relay keeps four connections. */
  databaseUrl: string
  /** Default: `waybill`. */
  schema?: string
  /** Where events go, by name. */
  destinations: Readonly<Record<string, DestinationInput>>
  /** Which event goes where. May be left out with a single destination. */
  routes?: readonly RouteRule[] | Route
  /** Receives what happens. Default: one that nobody hears. */
  telemetry?: Telemetry
}

export interface DrainReport {
  published: number
  /** Failures, counted or not. */
  failed: number
  /** Events that became dead letters. */
  dead: number
  /** What is due and could not go out: its destination is away, or another relay has it and did not deliver it. */
  stuck: number
}

/** Takes committed events and publishes them, in order for each aggregate, at least once. */
export interface Relay {
  /** Identity of this run; a new one for each process. */
  readonly id: string
  readonly telemetry: Telemetry
  /**
   * Starts and goes on by itself, also while the database or a destination is away.
   *
   * @throws SCHEMA_MISSING, SCHEMA_OUTDATED, SCHEMA_NEWER when the database can be reached and says so
   */
  start(): Promise<void>
  /**
   * Stops taking, waits for the calls under way, records what was acknowledged, hands the buckets over. `clean` is
   * false when the grace time (milliseconds, default `stopGraceMs`) ran out first: then what was under way may be
   * published again by the next owner. Idempotent.
   */
  stop(options?: { graceMs?: number }): Promise<{ clean: boolean }>
  /**
   * Publishes everything that is due, then stops.
   *
   * @throws as `start`, and PERMISSION_DENIED
   */
  drain(): Promise<DrainReport>
  health(): Health
}
