import { databaseError, sqlState } from '../database/failures.ts'
import { consumerPrivileges } from '../database/privileges.ts'
import { causes } from '../outbox/failures.ts'
import type { PgPool } from './pg-pool.ts'
import { type PgStoreOptions, createPgStore, createPoolStore } from './pg-store.ts'
import {
  type TransactionRunner,
  createRunnerStore,
  expectedDatabase,
  isTransactionRunner,
} from './runner-store.ts'
import type { Store } from './store.ts'

/** Where a consumer keeps its inbox and runs its handlers. */
export type ConsumerDatabase<Tx> = string | PgPool | TransactionRunner<Tx>

/** @throws CONFIGURATION_INVALID */
export function openStore<Tx>(
  database: ConsumerDatabase<Tx>,
  { schema, concurrency, isolation }: PgStoreOptions & { schema: string; concurrency: number },
): Store<Tx> {
  return explaining(open(database, concurrency, { isolation }), schema, roleOf(database))
}

function open<Tx>(database: ConsumerDatabase<Tx>, concurrency: number, options: PgStoreOptions): Store<Tx> {
  // A handler's type says which handle it gets; with a URL or a pool that is a client of pg.
  if (typeof database === 'string') {
    if (!/^postgres(ql)?:\/\//.test(database)) throw expectedDatabase()
    return createPgStore(database, concurrency, options) as Store<unknown> as Store<Tx>
  }
  if (isTransactionRunner(database)) return createRunnerStore(database as TransactionRunner<Tx>)
  const { connect, totalCount } = database as Partial<PgPool>
  if (typeof connect !== 'function' || typeof totalCount !== 'number') throw expectedDatabase()
  return createPoolStore(database as PgPool, options) as Store<unknown> as Store<Tx>
}

/** A missing table or privilege is told with what to do about it. */
function explaining<Tx>(store: Store<Tx>, schema: string, role: string | undefined): Store<Tx> {
  const { where } = store
  const context = { where, schema, privileges: consumerPrivileges, ...(role === undefined ? {} : { role }) }
  const explained = async <T>(work: Promise<T>): Promise<T> => {
    try {
      return await work
    } catch (error) {
      const cause = causes(error).find((one) => explainable.has(sqlState(one) ?? ''))
      throw cause === undefined ? error : databaseError(cause, context)
    }
  }
  return {
    ...store,
    run: (tx, sql, params) => explained(store.run(tx, sql, params)),
    query: (sql, params) => explained(store.query(sql, params)),
  }
}

/** A lacking privilege, schema, table or function. */
const explainable: ReadonlySet<string> = new Set(['42501', '3F000', '42P01', '42883'])

function roleOf(database: unknown): string | undefined {
  if (typeof database !== 'string' || !URL.canParse(database)) return undefined
  const { username } = new URL(database)
  return username === '' ? undefined : decodeURIComponent(username)
}
