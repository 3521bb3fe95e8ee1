import { WaybillError, describeError, hasCode } from '../errors.ts'
import type { MessageFormat } from '../types.ts'

/**
 * One event on its way to one destination: everything a publisher may need, before it is put into the
 * terms of a broker (see `encode` in `format.ts`). The body is PostgreSQL's own text of the payload and is
 * never parsed or serialised again.
 */
export interface Message {
  /** The event's id: what consumers deduplicate by. */
  readonly eventId: string
  /** What the broker's own deduplication sees: the event id, or `<id>.r<n>` on a deliberate replay. */
  readonly messageId: string
  /** Number of the deliberate replay this message is, or null for a first delivery. */
  readonly replay: number | null
  readonly aggregateType: string
  /** With `aggregateType` the ordering key; alone the key of the message. */
  readonly aggregateId: string
  readonly eventType: string
  /** Topic, subject, routing key, stream or queue; by default `outbox.event.<aggregateType>`. */
  readonly topic: string
  /** `payload::text`, byte for byte. */
  readonly body: string
  /** UTC, ISO 8601, up to microseconds, trailing zeros trimmed. */
  readonly createdAt: string
  /** Decimal text of the revision, or null when the event is no publication intent. */
  readonly revision: string | null
  readonly operationId: string | null
  /** The event's own headers; `traceparent` and `tracestate` are among them when present. */
  readonly headers: Readonly<Record<string, string>>
  readonly format: MessageFormat
  /** Address that a route gave for this one event, or null; only destinations that take one look at it. */
  readonly url: string | null
}

/** What a publisher has to tell beside its results. */
export interface PublisherObserver {
  /** A header of the event was left out because the destination reserves its name; told once for each name. */
  headerDropped(drop: { eventId: string; header: string }): void
}

/** What a publisher can do; the relay arranges its calls by these flags. */
export interface PublisherCapabilities {
  /**
   * `batch`: messages of one call with the same key keep their order; behind one that is not published, none of its
   * aggregate is.
   * `per-call`: they may overtake each other, so a call never holds two events of one aggregate.
   */
  readonly ordering: 'batch' | 'per-call'
  /** True when the broker itself drops a second message with the same `messageId`. */
  readonly deduplication: boolean
  /** Largest body in bytes; a larger event becomes a dead letter with that reason. Default: no limit. */
  readonly maxMessageBytes?: number
  /** Most messages for one call. Default: `relay.batchSize`. */
  readonly maxBatchSize?: number
  /** Most bytes of bodies for one call. Default: 8 MiB. */
  readonly maxBatchBytes?: number
}

/**
 * The outcome of one message. Outcomes are values; a publisher throws only for what concerns the whole call:
 * {@link brokerUnavailable} means "none of them, and the destination is away".
 *
 * - `published`: the destination confirmed it; `receipt` is what it answered (`kafka:orders/3@1042`).
 * - `retry`: not this time. With {@link brokerUnavailable} as error it is the destination's fault, with any
 *   other error the event's. `afterMs` is what the destination asked for (`Retry-After`).
 * - `reject`: never. {@link rejectedBy} when the destination said so, {@link undeliverable} when the
 *   publisher itself could tell.
 */
export type PublishResult =
  | { readonly status: 'published'; readonly receipt?: string }
  | { readonly status: 'retry'; readonly error: Error; readonly afterMs?: number }
  | { readonly status: 'reject'; readonly error: Error }

/** What comes with one call. */
export interface PublishCall {
  /** Aborts when the relay gives the call up. */
  readonly signal: AbortSignal
  /**
   * May be called for a message that is confirmed while others of the call are still under way: its aggregate goes on
   * at once, and is not held back by one that hangs. The result at the end must say `published` too.
   */
  readonly onPublished?: ((index: number, receipt?: string) => void) | undefined
}

/**
 * Brings messages to one destination. The contract, checked by `testPublisher` of `waybill/testing`:
 *
 * - `publish` resolves with one result for each message, in the same order, only after the destination
 *   confirmed or refused. It is never called with an empty array, may be called several times at once, and
 *   stops early when `signal` aborts (the messages not yet confirmed are then `retry`).
 * - One bad message fails alone.
 * - It reconnects by itself: after an outage the next call works.
 * - `close` is idempotent, may come while `publish` runs, and leaves no timer or socket behind.
 */
export interface Publisher {
  /** Shown in receipts, logs and metrics, for example `rabbitmq`. */
  readonly name: string
  readonly capabilities: PublisherCapabilities
  /** Names who is told what is not part of a result. The last one named is told. */
  observe?(observer: PublisherObserver): void
  /** Optional early connection. Rejects with {@link brokerUnavailable} when the destination is away. */
  connect?(options: { signal: AbortSignal }): Promise<void>
  publish(messages: readonly Message[], options: PublishCall): Promise<readonly PublishResult[]>
  /** Resolves when the destination would take work now; must not send an event. */
  checkHealth?(options: { signal: AbortSignal }): Promise<void>
  close(): Promise<void>
}

/** The destination is away or refuses all work (refused, 401, 429, 503 …): opens the circuit, costs no attempt. */
export function brokerUnavailable(
  message: string,
  options: { cause?: unknown; afterMs?: number } = {},
): WaybillError {
  return new WaybillError('BROKER_UNAVAILABLE', message, {
    cause: options.cause,
    details: options.afterMs === undefined ? {} : { afterMs: options.afterMs },
  })
}

/** An explicit answer about this one event that may change later: a nack, HTTP 500. */
export function publishFailed(message: string, options: { cause?: unknown } = {}): WaybillError {
  return new WaybillError('PUBLISH_FAILED', message, options)
}

/** No answer about this one event: a timeout or a connection that was reset while it was under way. */
export function publishTimeout(message: string, options: { cause?: unknown } = {}): WaybillError {
  return new WaybillError('PUBLISH_TIMEOUT', message, options)
}

/**
 * The destination refused this event for good. `answer` is the short form of its answer (`HTTP 404`): five
 * different events in a row with the same answer are taken for a wrong address, not for five bad events.
 */
export function rejectedBy(answer: string, message: string, options: { cause?: unknown } = {}): WaybillError {
  return new WaybillError('EVENT_REJECTED', message, { cause: options.cause, details: { answer } })
}

/** The event cannot be put into this destination's terms (too large, a header it cannot carry, no topic). */
export function undeliverable(message: string, options: { cause?: unknown } = {}): WaybillError {
  return new WaybillError('EVENT_UNDELIVERABLE', message, options)
}

/** The outcome of a message that could not be made ready for sending: never, or with an unforeseen error not this time. */
export function unprepared(error: unknown): PublishResult {
  return hasCode(error, 'EVENT_UNDELIVERABLE')
    ? { status: 'reject', error }
    : { status: 'retry', error: publishFailed(describeError(error, 300), { cause: error }) }
}
