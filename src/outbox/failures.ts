import { databaseError, failureOf, sqlState } from '../database/failures.ts'
import { writerPrivileges } from '../database/privileges.ts'
import { WaybillError } from '../errors.ts'

/**
 * Any error of a statement of `publish`, as one of ours where there is something to say; the library's own error
 * otherwise, so that the caller sees its SQLSTATE (a serialisation failure, a deadlock, a constraint).
 */
export function publishError(error: unknown, schema: string, findRole: () => string | undefined): unknown {
  if (error instanceof WaybillError) return error
  const server = causes(error).find((cause) => sqlState(cause) !== undefined)
  const state = sqlState(server)
  if (state === '25P02') {
    return new WaybillError(
      'TRANSACTION_FAILED',
      'an earlier statement of this transaction failed, so PostgreSQL takes nothing more in it: roll it back, ' +
        'and look for the error of that statement, which was not handled',
      { cause: error },
    )
  }
  if (server === undefined ? isConnectionLoss(error) : isSessionEnd(server)) {
    return new WaybillError(
      'DATABASE_UNREACHABLE',
      'the session of this transaction is lost, and the transaction with it: repeat the whole transaction',
      { cause: error },
    )
  }
  if (state === undefined || !explained.has(state)) return error
  const role = findRole()
  return databaseError(server, {
    where: 'this database',
    schema,
    privileges: writerPrivileges,
    ...(role === undefined ? {} : { role }),
  })
}

/** A lacking privilege, schema, table or function: `databaseError` says what to do. */
const explained: ReadonlySet<string> = new Set(['42501', '3F000', '42P01', '42883'])

/** ORMs wrap the error of their driver. */
export function causes(error: unknown): unknown[] {
  const found: unknown[] = []
  for (let e = error; typeof e === 'object' && e !== null && found.length < 5;) {
    found.push(e)
    const { cause, original, driverError } = e as {
      cause?: unknown
      original?: unknown
      driverError?: unknown
    }
    e = cause ?? original ?? driverError
  }
  return found
}

/** A read-only transaction (25006) was the caller's own choice: its session is well. */
function isSessionEnd(error: unknown): boolean {
  return failureOf(error) === 'connection' && sqlState(error) !== '25006'
}

/** Drivers have no common word for it, but all of them speak of the connection. */
function isConnectionLoss(error: unknown): boolean {
  const signs = /connection|not queryable|socket|ECONN|EPIPE|ETIMEDOUT/i
  return causes(error).some((cause) => {
    const { code, message } = cause as { code?: unknown; message?: unknown }
    return signs.test(String(code)) || signs.test(String(message))
  })
}
