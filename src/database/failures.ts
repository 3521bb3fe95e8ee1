import { WaybillError, describeError } from '../errors.ts'
import { quoteIdentifier } from './identifiers.ts'

/** What a failed statement says about the connection it ran on. */
export type DatabaseFailure = 'connection' | 'statement'

/**
 * SQLSTATEs after which the session is of no use: class 08 (connection), 57P01–57P05 (terminated, starting or
 * shutting down, idle session), 25006 (the server became read-only: a demoted primary), 25P03 (idle in
 * transaction), 53300 (too many connections). https://www.postgresql.org/docs/current/errcodes-appendix.html
 */
const connectionStates = /^(08...|57P0[1-5]|25006|25P03|53300|28...|3D000)$/

/** Errors of Node's sockets and of `pg` itself carry no SQLSTATE: they all concern the connection. */
export function failureOf(error: unknown): DatabaseFailure {
  if (error instanceof WaybillError) return error.code.startsWith('DATABASE_') ? 'connection' : 'statement'
  const state = sqlState(error)
  return state === undefined || connectionStates.test(state) ? 'connection' : 'statement'
}

/** The five-character SQLSTATE of a server's error, or undefined for an error of the socket. */
export function sqlState(error: unknown): string | undefined {
  const code = (error as { code?: unknown } | null | undefined)?.code
  return typeof code === 'string' && /^[0-9A-Z]{5}$/.test(code) && 'severity' in (error as object) ? code : undefined
}

/**
 * Any error of a statement or a connection as one of ours, in one sentence that says what to do. Passwords
 * never appear: of a connection URL only `where` (host, port and database) is shown.
 */
export function databaseError(error: unknown, context: { where: string; schema: string; role?: string }): Error {
  if (error instanceof WaybillError) return error
  const state = sqlState(error)
  const { where, schema } = context
  const message = (error as { message?: string }).message ?? ''
  if (state === '42501') return permissionDenied(message, context, error)
  if (state === '3F000' || state === '42P01' || state === '42883') {
    return new WaybillError(
      'SCHEMA_MISSING',
      `the schema ${JSON.stringify(schema)} of ${where} has no Waybill tables, run "waybill migrate" first (${message})`,
      { cause: error },
    )
  }
  if (failureOf(error) === 'connection') {
    return new WaybillError('DATABASE_UNREACHABLE', `cannot use PostgreSQL at ${where}: ${describeError(error, 300)}`, {
      cause: error,
    })
  }
  return error instanceof Error ? error : new Error(describeError(error))
}

const objectInMessage = /permission denied for (\w+(?: \w+)?) (.+)$/

function permissionDenied(message: string, context: { where: string; schema: string; role?: string }, cause: unknown) {
  const [, kind = 'object', name = ''] = objectInMessage.exec(message) ?? []
  const role = context.role ?? 'this role'
  const schema = quoteIdentifier(context.schema)
  const target = kind === 'schema' ? `SCHEMA ${schema}` : `${schema}.${quoteIdentifier(name)}`
  const privilege = kind === 'schema' ? 'USAGE' : kind === 'function' ? 'EXECUTE' : 'SELECT, INSERT, UPDATE, DELETE'
  return new WaybillError(
    'PERMISSION_DENIED',
    `role ${JSON.stringify(role)} lacks a privilege on ${kind} ${JSON.stringify(name)}: an owner may run ` +
      `GRANT ${privilege} ON ${kind === 'function' ? 'FUNCTION ' : ''}${target} TO ${quoteIdentifier(role)}; ` +
      `docs/guides/roles.md lists what each role needs`,
    { cause, details: { role, kind, name, schema: context.schema } },
  )
}
