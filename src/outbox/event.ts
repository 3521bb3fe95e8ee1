import type { StandardSchemaV1 } from '@standard-schema/spec'

/**
 * The event types that an outbox knows, each with the schema of its payload: zod, valibot, arktype or anything else
 * that implements Standard Schema.
 */
export type EventCatalogue = Readonly<Record<string, StandardSchemaV1>>

/** What every event has beside its type and payload. */
export interface EventFields {
  /**
   * Which entity the event is about: its type and its id, 1 to 255 characters each. Events of one aggregate are
   * delivered in order. A number or bigint as id is written as decimal text.
   */
  readonly aggregate: readonly [type: string, id: string | number | bigint]
  /**
   * Headers of the message. Names that the message, HTTP or Waybill itself uses are refused (`id`, `host`,
   * `webhook-…`, `x-waybill-…`; docs/guides/writing-events.md has the list). Default: none.
   */
  readonly headers?: Readonly<Record<string, string | undefined>> | undefined
  /**
   * The revision of the aggregate that this event publishes, 0 to 2^63 − 1. Each revision can be published once for
   * each scope, and none below the newest. Default: the event publishes no revision.
   */
  readonly revision?: bigint | number | undefined
  /** Tells independent publications of one revision apart, up to 100 characters. Default: none. */
  readonly scope?: string | undefined
  /** The id of the request or job that caused the event, 1 to 255 characters. Default: none. */
  readonly operationId?: string | undefined
  /** UUID by which consumers recognise the event. Default: a new UUIDv7. */
  readonly id?: string | undefined
}

/** An event to publish; with a catalogue, of one of its types and with a payload that its schema takes. */
export type OutboxEvent<Events extends EventCatalogue = EventCatalogue> = {
  [Type in keyof Events & string]: EventFields & {
    /** The name that consumers know, 1 to 255 characters. */
    readonly type: Type
    /** Any JSON value. What the schema returns for it is what is stored. */
    readonly payload: StandardSchemaV1.InferInput<Events[Type]>
  }
}[keyof Events & string]

/** What `publish` did with one event. */
export interface WrittenEvent {
  /** The id that consumers will see. */
  readonly id: string
  /**
   * False when this transaction had written the same revision with the same type and payload before: nothing was
   * written again, and `id` is the id of the event that is there.
   */
  readonly written: boolean
}

/** An event that passed every check, in the form in which it goes to PostgreSQL. */
export interface EncodedEvent {
  readonly id: string
  readonly aggregateType: string
  readonly aggregateId: string
  readonly type: string
  /** JSON text. */
  readonly payload: string
  readonly headers: readonly (readonly [name: string, value: string])[]
  readonly revision: bigint | null
  readonly scope: string
  readonly operationId: string | null
}
