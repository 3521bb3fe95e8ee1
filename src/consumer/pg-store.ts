import pg from 'pg'
import { describeUrl } from '../database/connection.ts'
import { failureOf } from '../database/failures.ts'
import { WaybillError } from '../errors.ts'
import { aborted, within } from '../pause.ts'
import type { Queryable } from '../types.ts'
import type { PgPool, PgPoolClient } from './pg-pool.ts'
import { Aborted, type Store, SessionLost } from './store.ts'
import { guardTransaction } from './transaction-guard.ts'

export interface PgStoreOptions {
  /** Sent instead of a plain BEGIN's own level. */
  readonly isolation: string | undefined
}

/** Limit for one statement of the consumer's own and for a connection, in milliseconds. */
const statementLimitMs = 30_000
const connectLimitMs = 10_000

/** A store on a pool of its own, closed with it. */
export function createPgStore(databaseUrl: string, most: number, options: PgStoreOptions): Store<Queryable> {
  const pool = new pg.Pool({
    connectionString: databaseUrl,
    // One more for effects, attempts and the heartbeat: they must not wait for a handler that waits for them.
    max: most + 1,
    application_name: 'waybill consumer',
    connectionTimeoutMillis: connectLimitMs,
    keepAlive: true,
  })
  // An idle session that is lost is replaced at the next use.
  pool.on('error', () => undefined)
  const store = storeOn(pool, describeUrl(databaseUrl), most, options)
  let closed: Promise<void> | undefined
  return { ...store, close: () => (closed ??= pool.end()) }
}

/** A store on the user's pool, which stays the user's. */
export function createPoolStore(pool: PgPool, options: PgStoreOptions): Store<Queryable> {
  const max = pool.options?.max ?? 10
  if (max < 2) {
    throw new WaybillError(
      'CONFIGURATION_INVALID',
      'expected database to be a pool of at least 2 connections: one is for the handlers, one for what is kept beside them',
    )
  }
  return storeOn(pool, 'the given pool', max - 1, options)
}

function storeOn(
  pool: PgPool,
  where: string,
  mostTransactions: number,
  { isolation }: PgStoreOptions,
): Store<Queryable> {
  const level = isolation === undefined ? '' : ` ISOLATION LEVEL ${isolation.toUpperCase()}`

  /** On a connection of its own; one that failed, or whose answer did not come, is not used again. */
  async function using<T>(work: (client: PgPoolClient, lost: Promise<never>) => Promise<T>): Promise<T> {
    const client = await connect(pool)
    let lose!: (error: Error) => void
    const lost = new Promise<never>((_, reject) => (lose = reject))
    lost.catch(() => undefined)
    const onError = (error: Error) =>
      lose(new SessionLost(`the session was lost: ${error.message}`, { cause: error }))
    client.on('error', onError)
    let usable = false
    try {
      const result = await work(client, lost)
      usable = true
      return result
    } catch (error) {
      usable = !isBroken(error) && (await rollback(client))
      throw error
    } finally {
      client.release(!usable)
      // Only now: a session that dies while it is given back must not end the process.
      if (usable) client.removeListener('error', onError)
    }
  }

  return {
    where,
    mostTransactions,
    run: async (tx, sql, params) => (await limited(tx.query(sql, [...params]))).rows,
    query: (sql, params) =>
      using(
        async (client, lost) => (await limited(Promise.race([client.query(sql, [...params]), lost]))).rows,
      ),
    transaction: (work, { signal, idleLimitMs }) =>
      using(async (client, lost) => {
        // A process that lost its network would keep its locks for hours; the server ends it.
        await limited(
          client.query(
            `BEGIN${level}; SET LOCAL idle_in_transaction_session_timeout = ${Math.ceil(idleLimitMs)}`,
          ),
        )
        const { tx, end } = guardTransaction(client)
        try {
          const result = await Promise.race([work(tx), lost, rejectedBy(signal)])
          end()
          await commit(client)
          return result
        } finally {
          end()
        }
      }),
    close: () => Promise.resolve(),
  }
}

async function commit(client: PgPoolClient): Promise<void> {
  const { command } = (await limited(client.query('COMMIT'))) as { command?: string }
  if (command === 'COMMIT') return
  throw new WaybillError(
    'TRANSACTION_FAILED',
    'PostgreSQL answered COMMIT with ROLLBACK: a statement of the handler failed and its error was not passed on',
  )
}

/** Waits for a connection, and gives back one that comes too late. */
async function connect(pool: PgPool): Promise<PgPoolClient> {
  const connecting = pool.connect()
  if (await within(connecting, connectLimitMs)) return connecting
  connecting.then(
    (client) => client.release(),
    () => undefined,
  )
  // Rejects with its own error when it has one.
  return Promise.race([connecting, Promise.reject(timeout(connectLimitMs))])
}

async function rollback(client: PgPoolClient): Promise<boolean> {
  return within(client.query('ROLLBACK'), 5_000)
}

async function limited<T>(work: Promise<T>): Promise<T> {
  if (await within(work, statementLimitMs)) return work
  return Promise.race([work, Promise.reject(timeout(statementLimitMs))])
}

function timeout(ms: number): WaybillError {
  return new WaybillError('DATABASE_TIMEOUT', `PostgreSQL did not answer within ${ms} ms`)
}

/** After an abort the handler may still be using the connection: it must lose it. */
function isBroken(error: unknown): boolean {
  if (error instanceof SessionLost || error instanceof Aborted) return true
  return (error instanceof WaybillError && error.code === 'DATABASE_TIMEOUT') || hasConnectionState(error)
}

function hasConnectionState(error: unknown): boolean {
  return error instanceof Error && 'severity' in error && failureOf(error) === 'connection'
}

async function rejectedBy(signal: AbortSignal): Promise<never> {
  await aborted(signal)
  throw new Aborted('given up', { cause: signal.reason })
}
