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
  query(text: string, values?: unknown[]): Promise<{ rows: Record<string, unknown>[]; rowCount: number | null }>
}
