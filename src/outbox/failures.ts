import { databaseError, failureOf, sqlState } from '../database/failures.ts'
import { writerPrivileges } from '../database/privileges.ts'
import { WaybillError } from '../errors.ts'

/**
 * Any error of a statement of `publish`, as one of ours where there is something to say; PostgreSQL's own error
 * otherwise, so that the caller sees its SQLSTATE (a serialisation failure, a deadlock, a constraint of theirs).
 */
export function publishError(error: unknown, schema: string, findRole: () => string | undefined): unknown {
  if (error instanceof WaybillError) return error
  const state = sqlState(error)
  if (state === '25P02') {
    return new WaybillError(
      'TRANSACTION_FAILED',
      'an earlier statement of this transaction failed, so PostgreSQL takes nothing more in it: roll it back, ' +
        'and look for the error of that statement, which was not handled',
      { cause: error },
    )
  }
  if (state === undefined && !isConnectionLoss(error)) return error
  // A read-only transaction is the caller's own choice, the session is well.
  if (state === '25006') return error
  if (failureOf(error) === 'connection') {
    return new WaybillError(
      'DATABASE_UNREACHABLE',
      'the session of this transaction is lost, and the transaction with it: repeat the whole transaction',
      { cause: error },
    )
  }
  const role = findRole()
  return databaseError(error, {
    where: 'this database',
    schema,
    privileges: writerPrivileges,
    ...(role === undefined ? {} : { role }),
  })
}

/** An error without SQLSTATE comes from the driver or its socket: of the session, unless it is a plain mistake. */
function isConnectionLoss(error: unknown): boolean {
  return error instanceof Error && !(error instanceof TypeError || error instanceof RangeError)
}
