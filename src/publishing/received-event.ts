/** An event as a consumer gets it, whatever broker and format it came by. */
export interface ReceivedEvent<Payload = unknown> {
  /** By this a repeated delivery is recognised. */
  readonly id: string
  readonly type: string
  readonly aggregateType: string
  readonly aggregateId: string
  /** The body, parsed. Numbers beyond 2^53 and trailing zeros are in `body` only. */
  readonly payload: Payload
  /** PostgreSQL's own text of the payload, as it was delivered. */
  readonly body: string
  /** The revision of the aggregate that it publishes; null when it publishes none. */
  readonly revision: bigint | null
  readonly operationId: string | null
  /** UTC, ISO 8601, up to microseconds. */
  readonly createdAt: string | null
  /** The event's own headers; `traceparent` and `tracestate` are among them when present. */
  readonly headers: Readonly<Record<string, string>>
  /** Number of the deliberate replay; null for the event itself. */
  readonly replay: number | null
  /** The message in its broker: `kafka:orders/3@1042`. */
  readonly origin: string
}
