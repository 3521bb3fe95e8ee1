import type { ClientAdapter, Queryable } from '../types.ts'

/** What runs statements on a handle of `pg`, inside a transaction or, for reading, outside of one. */
export const pgQueries: ClientAdapter<Queryable> = Object.freeze({
  name: 'pg',
  query: async (handle, sql, params) => (await handle.query(sql, [...params])).rows,
} satisfies ClientAdapter<Queryable>)
