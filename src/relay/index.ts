export { createRelay } from './relay.ts'
export type { DrainReport, Relay, RelayOptions } from './relay-api.ts'
export type { DestinationInput } from './destination.ts'
export type { Health } from './health.ts'
export { relayDefaults } from './options.ts'
export type { RelayTuning } from './options.ts'
export type {
  Message,
  PublishCall,
  Publisher,
  PublisherCapabilities,
  PublisherObserver,
  PublishResult,
} from '../publishing/publisher.ts'
export {
  brokerUnavailable,
  publishFailed,
  publishTimeout,
  rejectedBy,
  undeliverable,
} from '../publishing/publisher.ts'
export type { Route, RouteRule, RouteTarget, RoutableEvent } from '../publishing/routing.ts'
export { createTelemetry } from '../telemetry/events.ts'
export type { Telemetry, TelemetryEvents } from '../telemetry/events.ts'
