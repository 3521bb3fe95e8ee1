import { WaybillError } from '../errors.ts'
import type { PgPoolClient } from './pg-pool.ts'

/**
 * The client of a pool for one transaction: after `end` it takes no statement any more. A handler that forgot to
 * wait for one, or was given up, would otherwise run it outside of every transaction, or inside the next event's.
 */
export function guardTransaction(client: PgPoolClient): { tx: PgPoolClient; end: () => void } {
  let ended = false
  const refused = new Set<PropertyKey>(['release', 'end', 'connect'])
  const tx = new Proxy(client, {
    get(target, key) {
      if (refused.has(key)) return () => Promise.reject(notYours())
      if (ended && key === 'query') return () => Promise.reject(over())
      const value: unknown = Reflect.get(target, key, target)
      return typeof value === 'function' ? (value.bind(target) as unknown) : value
    },
  })
  return { tx, end: () => void (ended = true) }
}

function over(): WaybillError {
  return new WaybillError(
    'NOT_IN_TRANSACTION',
    'the transaction of this event is over: wait for every statement before the handler returns',
  )
}

function notYours(): WaybillError {
  return new WaybillError(
    'ACTION_REFUSED',
    'the connection of a handler belongs to the consumer: only run statements on it',
  )
}
