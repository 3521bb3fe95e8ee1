import type { Queryable } from '../types.ts'

/** A `Pool` of `pg`, as far as it is needed. */
export interface PgPool {
  connect(): Promise<PgPoolClient>
  readonly totalCount: number
  readonly options?: { readonly max?: number | undefined } | undefined
}

export interface PgPoolClient extends Queryable {
  on(event: 'error', listener: (error: Error) => void): unknown
  removeListener(event: 'error', listener: (error: Error) => void): unknown
  release(destroy?: boolean): void
}
