/** The states of an event: the same words in commands, JSON, the dashboard and the documentation. */
export const eventStates = ['pending', 'retrying', 'blocked', 'dead', 'discarded', 'published'] as const

/** One of {@link eventStates}. `docs/life-cycle.md` draws how an event moves between them. */
export type EventState = (typeof eventStates)[number]

/** The format of a delivered message; see `docs/reference/message.md`. */
export const messageFormats = ['debezium', 'cloudevents', 'cloudevents-structured'] as const
export type MessageFormat = (typeof messageFormats)[number]

/** What a dead letter does to the later events of its aggregate. */
export type AfterDeadLetter = 'continue' | 'hold'

/** A PostgreSQL handle in its smallest shape: `pg`'s Client, PoolClient and Pool fit. */
export interface Queryable {
  query(
    text: string,
    values?: unknown[],
  ): Promise<{ rows: Record<string, unknown>[]; rowCount: number | null }>
}

/**
 * How one client library runs a statement on a handle that is inside a transaction: all that `createOutbox`
 * needs to know about it. `waybill/clients/*` has one for each known library; one of your own is this object.
 */
export interface ClientAdapter<in Handle> {
  /** The library, for messages: `pg`. */
  readonly name: string
  /**
   * Runs one statement on exactly this handle, never on another connection, and resolves with its rows as
   * objects. The statement marks its parameters as `$1`; each is text and is cast inside the statement. Rejects
   * with the library's own error.
   *
   * @throws NOT_IN_TRANSACTION when the handle is not one of this library's that can be inside a transaction.
   */
  query(handle: Handle, sql: string, params: readonly string[]): Promise<readonly Record<string, unknown>[]>
  /** The role that the session logged in as, for messages, where the handle tells. */
  role?(handle: Handle): string | undefined
}
