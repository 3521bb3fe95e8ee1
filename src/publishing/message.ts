import type { MessageFormat } from '../types.ts'
import { createdAtText } from './created-at.ts'
import { decodeHeaders } from './headers.ts'
import { type Message, undeliverable } from './publisher.ts'
import type { RoutableEvent, RouteTarget } from './routing.ts'

/** An event as it was read from its row: raw text, nothing decoded yet. */
export interface StoredEvent {
  readonly id: string
  readonly aggregateType: string
  readonly aggregateId: string
  readonly eventType: string
  /** `payload::text` */
  readonly body: string
  /** `headers::text` */
  readonly headers: string
  /** Decimal text. */
  readonly revision: string | null
  readonly operationId: string | null
  /** `created_at` as microseconds since 1970, decimal text. */
  readonly createdAtMicros: string
  /** Number of the deliberate replay, null for the event itself. */
  readonly replay: number | null
}

/** The event in the form that routes see. Its headers are decoded when they are first asked for, and once only. */
export function routableEvent(event: Omit<StoredEvent, 'body'>): RoutableEvent {
  return new RoutableStoredEvent(event)
}

class RoutableStoredEvent implements RoutableEvent {
  readonly id: string
  readonly aggregateType: string
  readonly aggregateId: string
  readonly eventType: string
  readonly #text: string
  #headers: Readonly<Record<string, string>> | undefined

  constructor(event: Omit<StoredEvent, 'body'>) {
    this.id = event.id
    this.aggregateType = event.aggregateType
    this.aggregateId = event.aggregateId
    this.eventType = event.eventType
    this.#text = event.headers
  }

  /** @throws EVENT_UNDELIVERABLE */
  get headers(): Readonly<Record<string, string>> {
    return (this.#headers ??= decodeHeaders(this.#text))
  }
}

let lastType: string | undefined
let lastTopic = ''

/** The text of the last one is kept: in most cases the next is the same. */
function defaultTopic(aggregateType: string): string {
  if (aggregateType !== lastType) {
    lastTopic = `outbox.event.${aggregateType}`
    lastType = aggregateType
  }
  return lastTopic
}

/**
 * The message for a stored event. Called for each event that is delivered, so it does no work twice: give it
 * the `routable` form when there is one.
 *
 * @throws EVENT_UNDELIVERABLE when the row cannot be made into a message: bad headers, an empty topic, a time
 *   that has no ISO 8601 form
 */
export function createMessage(
  event: StoredEvent,
  target: RouteTarget,
  format: MessageFormat,
  routable?: RoutableEvent,
): Message {
  const topic = target.topic ?? defaultTopic(event.aggregateType)
  if (topic === '') throw undeliverable('the route gives an empty topic, leave it out or give a name')
  return {
    eventId: event.id,
    messageId: event.replay === null ? event.id : `${event.id}.r${event.replay}`,
    replay: event.replay,
    aggregateType: event.aggregateType,
    aggregateId: event.aggregateId,
    eventType: event.eventType,
    topic,
    body: event.body,
    createdAt: createdAtText(event.createdAtMicros),
    revision: event.revision,
    operationId: event.operationId,
    headers: routable === undefined ? decodeHeaders(event.headers) : routable.headers,
    format,
    url: target.url ?? null,
  }
}
