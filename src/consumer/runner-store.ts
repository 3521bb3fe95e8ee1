import { WaybillError } from '../errors.ts'
import { aborted } from '../pause.ts'
import type { ClientAdapter } from '../types.ts'
import { Aborted, type Store } from './store.ts'

/** The transactions of any client library, for handlers that work with that library. */
export interface TransactionRunner<Tx> {
  /** The adapter of the library, from `waybill/clients/*`. */
  readonly client: ClientAdapter<Tx>
  /**
   * Runs `work` in a new transaction, commits when it resolves and rolls back when it rejects. Keep at least one
   * connection more than `concurrency`.
   */
  transaction<T>(work: (tx: Tx) => Promise<T>): Promise<T>
}

export function createRunnerStore<Tx>(runner: TransactionRunner<Tx>): Store<Tx> {
  const { client } = runner
  const run: Store<Tx>['run'] = (tx, sql, params) => client.query(tx, sql, params)
  return {
    where: `the given database (${client.name})`,
    mostTransactions: Infinity,
    run,
    query: (sql, params) => runner.transaction((tx) => run(tx, sql, params)),
    transaction: (work, { signal }) =>
      runner.transaction((tx) =>
        Promise.race([
          work(tx),
          aborted(signal).then(() => {
            throw new Aborted('given up', { cause: signal.reason })
          }),
        ]),
      ),
    close: () => Promise.resolve(),
  }
}

export function isTransactionRunner(value: unknown): value is TransactionRunner<unknown> {
  const { client, transaction } = (value ?? {}) as Partial<TransactionRunner<unknown>>
  return typeof transaction === 'function' && typeof client?.query === 'function'
}

export function expectedDatabase(): WaybillError {
  return new WaybillError(
    'CONFIGURATION_INVALID',
    'expected database to be a URL (postgres://…), a Pool of pg, or { client, transaction } for another library',
  )
}
