/**
 * `waybill/consumer`: handles each event once, in order for each aggregate.
 */
export { createConsumer } from './consumer.ts'
export type { Consumer, ConsumerOptions } from './consumer-api.ts'
export type { Effects } from './effects.ts'
export { reject, retryLater } from './failure.ts'
export { freshnessReader, setFreshness } from './freshness.ts'
export type { AggregatePair, Freshness, FreshnessOptions, FreshnessReader, HeaderSink } from './freshness.ts'
export type { Handler, HandlerContext, Handlers } from './handlers.ts'
export { createInbox } from './inbox.ts'
export type { Inbox, InboxOptions } from './inbox.ts'
export { inProcessSource } from './in-process-source.ts'
export type { InProcessSource } from './in-process-source.ts'
export type { ConsumerDatabase } from './open-store.ts'
export type { PgPool, PgPoolClient } from './pg-pool.ts'
export { projection } from './projection.ts'
export type { Projection, ProjectionOptions, ProjectionResult, Revised } from './projection.ts'
export type { TransactionRunner } from './runner-store.ts'
export { decodeDelivery } from '../publishing/decoder.ts'
export type { ReceivedEvent } from '../publishing/received-event.ts'
export type {
  Delivery,
  DeliveryAnswer,
  Receiver,
  Source,
  SourceCapabilities,
  SourceObserver,
  SourceStart,
} from '../publishing/source.ts'
export { createTelemetry } from '../telemetry/events.ts'
export type { Telemetry, TelemetryEvents } from '../telemetry/events.ts'
