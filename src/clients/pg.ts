import { WaybillError } from '../errors.ts'
import type { ClientAdapter } from '../types.ts'

/**
 * A client of `pg` on which BEGIN was run: a `Client`, or a `PoolClient` from `pool.connect()`. Not a `Pool`, whose
 * calls may each take another connection.
 */
export interface PgHandle {
  query(text: string, values: unknown[]): Promise<{ rows: unknown[] }>
  readonly user?: string | undefined
  /** Only a `Pool` has it. */
  readonly totalCount?: never
}

/** The adapter for `pg`: `createOutbox({ client: pg() })`. */
export function pg(): ClientAdapter<PgHandle> {
  return adapter
}

const adapter: ClientAdapter<PgHandle> = Object.freeze({
  name: 'pg',
  async query(handle, sql, params) {
    checkHandle(handle)
    const result: { rows?: unknown } | null | undefined = await handle.query(sql, [...params])
    if (!Array.isArray(result?.rows)) {
      throw refuse('got something whose query() does not answer { rows }: roll back and pass a client of pg')
    }
    return result.rows as Record<string, unknown>[]
  },
  role: (handle) => (typeof handle.user === 'string' ? handle.user : undefined),
} satisfies ClientAdapter<PgHandle>)

function checkHandle(handle: unknown): void {
  const isObject = typeof handle === 'object' && handle !== null
  if (isObject && 'totalCount' in handle) {
    throw refuse(
      'got a pg Pool, which may run each statement on another connection: use a client of pool.connect()',
    )
  }
  if (!isObject || typeof (handle as Partial<PgHandle>).query !== 'function') {
    throw refuse('got something that has no query(text, values): pass the client on which you ran BEGIN')
  }
}

function refuse(problem: string): WaybillError {
  return new WaybillError(
    'NOT_IN_TRANSACTION',
    `publish needs a pg client that is inside a transaction, ${problem}`,
  )
}
