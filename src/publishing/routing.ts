/** Where an event goes. */
export interface RouteTarget {
  /** Name of a destination. */
  to: string
  /** Topic, subject, routing key, stream or queue. Default: `outbox.event.<aggregateType>`. */
  topic?: string
  /** Address for this event, for destinations that take one (webhook); guarded against private addresses. */
  url?: string
}

/** What a route may look at; the payload is not parsed. */
export interface RoutableEvent {
  readonly id: string
  readonly aggregateType: string
  readonly aggregateId: string
  readonly eventType: string
  readonly headers: Readonly<Record<string, string>>
}

/** One line of the table of routes; patterns may hold `*` for any run of characters. The first match wins. */
export interface RouteRule extends RouteTarget {
  aggregateType?: string
  eventType?: string
}

/** Finds the destination of an event; null when no route matches. A throw makes that event a dead letter. */
export type Route = (event: RoutableEvent) => RouteTarget | null
