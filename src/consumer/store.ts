/**
 * The database of a consumer as the rest of it sees it: transactions for handlers, and single statements of the
 * consumer's own beside them.
 */
export interface Store<Tx> {
  /** Host, port and database, or what stands for them in messages. */
  readonly where: string
  /** Handlers that may have a transaction at once, with one connection left for the consumer's own statements. */
  readonly mostTransactions: number
  /**
   * Runs `work` in a transaction of its own and commits. When `signal` aborts, or the session is lost, it rejects at
   * once, and nothing that `work` still tries on the handle gets through where the library allows that.
   *
   * @throws TRANSACTION_FAILED when the server answered COMMIT with ROLLBACK; {@link SessionLost}; what `work` throws
   */
  transaction<T>(work: (tx: Tx) => Promise<T>, how: { signal: AbortSignal; idleLimitMs: number }): Promise<T>
  /** One statement on the handle of a transaction. Parameters are texts, cast in the statement. */
  run(tx: Tx, sql: string, params: readonly string[]): Promise<readonly Record<string, unknown>[]>
  /** One statement in a transaction of its own, on another connection than those of the handlers. */
  query(sql: string, params: readonly string[]): Promise<readonly Record<string, unknown>[]>
  close(): Promise<void>
}

/** The session of a transaction ended under the handler: it was rolled back, whatever the handler was doing. */
export class SessionLost extends Error {
  override readonly name = 'SessionLost'
}

/** The work was given up from outside. */
export class Aborted extends Error {
  override readonly name = 'Aborted'
}
