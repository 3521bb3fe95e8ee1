import type { StandardSchemaV1 } from '@standard-schema/spec'
import type { EventCatalogue } from '../outbox/event.ts'
import type { ReceivedEvent } from '../publishing/received-event.ts'
import type { Effects } from './effects.ts'

/** What a handler gets. */
export interface HandlerContext<Tx, Payload = unknown> {
  readonly event: ReceivedEvent<Payload>
  /**
   * The transaction of this event: what is written here commits together with the inbox row, or not at all. It is the
   * consumer's: run statements on it, do not end it.
   */
  readonly tx: Tx
  /** For what happens outside of the database. */
  readonly effects: Effects
  /**
   * The projection that is being rebuilt; null for an event that comes live. A rebuild runs the handler for a revision
   * that it may have handled before: leave out what is not to happen twice. Effects leave themselves out.
   */
  readonly rebuild: string | null
  /** Number of this try, from 1. */
  readonly attempt: number
  /** Aborts when the try is given up: `handlerTimeoutMs` is over, or the grace time of a stop. */
  readonly signal: AbortSignal
}

/** Handles one event. That it returns means done; what it throws rolls the transaction back and is tried again. */
export type Handler<Tx, Payload = unknown> = (context: HandlerContext<Tx, Payload>) => unknown

/** A handler for each event type; `*` is for all other types. */
export type Handlers<Tx, Events extends EventCatalogue = EventCatalogue> = {
  readonly [Type in keyof Events & string]?: Handler<Tx, StandardSchemaV1.InferOutput<Events[Type]>>
} & { readonly '*'?: Handler<Tx> }

/** The handler of a type, or undefined for an unknown type. */
export function findHandler<Tx>(
  handlers: Readonly<Record<string, Handler<Tx> | undefined>>,
  type: string,
): Handler<Tx> | undefined {
  return (Object.hasOwn(handlers, type) ? handlers[type] : undefined) ?? handlers['*']
}
