import type { Binding } from './bindings.ts'
import type { HeaderPair } from './headers.ts'

/**
 * One message as a broker delivered it, raw: nothing of it is decoded by the source. The consumer makes the event
 * from it (`decoder.ts`, the inverse of `format.ts`), for every broker in the same way.
 */
export interface Delivery {
  /** Whose terms the headers are in: says which names they have, and how values are encoded. */
  readonly binding: Binding
  /** The body as it came, bytes or text. Empty for a message without a body (a tombstone). */
  readonly body: Uint8Array | string
  /**
   * All headers (attributes, fields) of the message as text, UTF-8 where the broker has bytes. One without a value
   * is left out. In SQS and SNS these are the attributes, the one with the own headers as JSON among them.
   */
  readonly headers: readonly HeaderPair[]
  /** From the broker's own field for it (AMQP, HTTP); null where it is a header or nothing. */
  readonly contentType: string | null
  /** Topic, subject, routing key, stream or queue that it came from; null where there is none. */
  readonly topic: string | null
  /** Kafka's key, the FIFO group; null where there is none. Stands in for an aggregate id that no header has. */
  readonly key: string | null
  /**
   * Names this message in the broker, for people, logs and dead letters: `kafka:orders/3@1042`. The same again when
   * it is delivered again, where the broker can tell.
   */
  readonly origin: string
  /**
   * True when this may not be the first delivery of this message: the broker says so (AMQP `redelivered`, a receive
   * count above 1), or it cannot say and the source has just begun to read here (Kafka, after an assignment: what
   * could have been under way when the former owner died). The consumer then notes the try before it makes it, so
   * that a message which ends the process is found out. True for all is correct and slow; false for all loses that.
   */
  readonly redelivered: boolean
  /**
   * Aborts when the source has lost this delivery (its partition was given to another consumer, its connection
   * broke), so that an answer would reach nobody: what has not begun is dropped. Default: never lost.
   */
  readonly lost?: AbortSignal
}

/**
 * What became of a delivery.
 *
 * - `done`: committed (or recorded as a duplicate, or as a dead letter). Acknowledge it.
 * - `again`: nothing was committed. Deliver it again, not before `afterMs`, and before later ones of its aggregate
 *   where the broker can. A source that holds (see {@link SourceCapabilities.holding}) gets it only when the
 *   consumer stops or the delivery is lost. `error` has the code BROKER_UNAVAILABLE when it is not about this event (a
 *   stop, a database that is away), and PUBLISH_FAILED when its handler failed.
 */
export type DeliveryAnswer =
  { readonly status: 'done' } | { readonly status: 'again'; readonly afterMs: number; readonly error: Error }

/**
 * Takes a delivery. Never throws and never rejects; may take long, since failures are retried and an away
 * database is waited for inside the call where the source is holding. Queues the delivery before it returns, so
 * the order of the calls is the order for each aggregate.
 */
export type Receiver = (delivery: Delivery) => Promise<DeliveryAnswer>

export interface SourceCapabilities {
  /**
   * `aggregate`: messages of one aggregate are handed over in the order in which they were published, also after a
   * failure and with several consumers. `none`: they may overtake each other; the page of the broker says when.
   */
  readonly ordering: 'aggregate' | 'none'
  /**
   * True for a queue: the delivery stays ours as long as the receiver needs (minutes), the source keeps it alive by
   * itself (SQS visibility, NATS `working`, Kafka heartbeats), and retries happen inside the call, so that nothing
   * of the aggregate overtakes. False where somebody waits for the answer (HTTP): the first failure is answered
   * with `again`, and the sender comes back.
   */
  readonly holding: boolean
}

/** Who is told what is not part of a delivery. Each change of state is told once. */
export interface SourceObserver {
  /** The broker is away or refuses; the source goes on trying. */
  down(error: Error): void
  /** It delivers again. Not told at the first start, unless `down` was. */
  up(): void
}

export interface SourceStart {
  readonly observer: SourceObserver
}

/**
 * Brings the messages of one queue to a consumer. The contract, checked by `testSource` of `waybill/testing`:
 *
 * - `start` is called once. It resolves when deliveries may come, or when the broker is found away: then it goes on
 *   trying by itself and tells the observer. It rejects only with what waiting does not mend: CONFIGURATION_INVALID,
 *   DEPENDENCY_MISSING, a queue or credentials that the broker refuses. After a rejection `stop` may still be called.
 * - The receiver is called once for each delivery, in the order of arrival for each aggregate (in the order of
 *   arrival altogether is simplest), without waiting for the answer of the one before. How many deliveries may be
 *   unanswered at once is an option of the source, `prefetch`, default 100. The consumer runs one event of an
 *   aggregate at a time and many aggregates at once: do not serialise in the source.
 * - A message is acknowledged after `done`, never before. What is unanswered at the end of the process, of the
 *   connection or of `stop` is delivered again, to this consumer or to another one of its group. Where the broker
 *   can only acknowledge up to a point (Kafka's offset), the source moves the point over a run without gaps.
 * - An acknowledgement that fails is no error: the message comes again and is a duplicate.
 * - It reconnects by itself, and ends no process by an unhandled rejection or `error` event.
 * - `stop` is idempotent, may come before or during `start`, takes nothing new from the moment it is called,
 *   waits until every receiver call has answered (the consumer sees to it that they do, and passes `graceMs` for the
 *   time it takes at most), acknowledges what is `done`, gives back the rest, closes its connections and leaves no
 *   timer or socket behind. It never rejects.
 * - Redelivery by the source is without a limit of its own where the broker lets it choose: dead letters are the
 *   consumer's.
 */
export interface Source {
  /** Shown in logs and metrics, for example `kafka`. */
  readonly name: string
  /**
   * Names the queue and the group that is read, without secrets: `kafka:group=billing topics=orders`. Equal for every
   * process of one service and different for another service, so that two services which took the same consumer
   * name by mistake are found out: each would miss what the other has handled. Null where there is no such thing.
   */
  readonly subscription: string | null
  readonly capabilities: SourceCapabilities
  start(receive: Receiver, options: SourceStart): Promise<void>
  stop(options: { graceMs: number }): Promise<void>
}
