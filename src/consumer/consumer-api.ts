import type { EventCatalogue } from '../outbox/event.ts'
import type { OptionsInput } from '../options.ts'
import type { ReceivedEvent } from '../publishing/received-event.ts'
import type { Delivery, Source } from '../publishing/source.ts'
import type { Telemetry } from '../telemetry/events.ts'
import type { Queryable } from '../types.ts'
import type { Handlers } from './handlers.ts'
import type { ConsumerDatabase } from './open-store.ts'
import type { consumerSpec } from './options.ts'

export interface ConsumerOptions<
  Tx = Queryable,
  Events extends EventCatalogue = EventCatalogue,
> extends OptionsInput<typeof consumerSpec> {
  /**
   * A URL: the consumer keeps `concurrency` + 1 connections. A `Pool` of `pg`: at most all of its connections but one
   * are used at once. `{ client, transaction }`: handlers get the handle of another library.
   */
  readonly database: ConsumerDatabase<Tx>
  /** Where the tables are. Default: `waybill`. */
  readonly schema?: string
  /** Where the messages come from: `rabbitmqSource(…)`, `webhookSource(…)`, `inProcessSource()` … */
  readonly source: Source
  /** A function for each event type; `*` takes all others. */
  readonly handlers: Handlers<Tx, Events>
  /**
   * The schemas of payloads, as given to `createOutbox`: checked before the handler runs; a payload that does not fit
   * makes a dead letter at once. Default: any payload.
   */
  readonly events?: Events
  /**
   * Makes the event of a message in a format of your own; null leaves the message out, a throw makes it a dead letter.
   * Default: the formats of `docs/reference/message.md`.
   */
  readonly decode?: (delivery: Delivery) => ReceivedEvent | null
  /** Receives what happens. Default: one that nobody hears. */
  readonly telemetry?: Telemetry
}

/** Takes messages from a source and handles each event once. */
export interface Consumer {
  readonly name: string
  /** Identity of this run; a new one for each process. */
  readonly id: string
  readonly telemetry: Telemetry
  /**
   * Starts and goes on by itself, also while the database or the broker is away.
   *
   * @throws SCHEMA_MISSING, PERMISSION_DENIED when the database can be reached and says so; CONFIGURATION_INVALID,
   *   DEPENDENCY_MISSING and what else of its source waiting does not mend
   */
  start(): Promise<void>
  /**
   * Takes nothing new and waits for the handlers that are under way; what has not begun goes back to the source.
   * `clean` is false when the grace time (milliseconds, default `stopGraceMs`) ran out first: then the transactions of
   * the rest were rolled back, and their events come again. Idempotent.
   */
  stop(options?: { graceMs?: number }): Promise<{ clean: boolean }>
}
