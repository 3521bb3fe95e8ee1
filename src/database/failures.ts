import { WaybillError, describeError } from '../errors.ts'
import { quoteIdentifier } from './identifiers.ts'
import { type Privileges, isOwnObject, relayPrivileges } from './privileges.ts'

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

/** True when the statement gave up since somebody else has a row or a table locked. */
export function isLockTimeout(error: unknown): boolean {
  return sqlState(error) === '55P03'
}

/** True when transactions got in each other's way (a serialisation failure, a deadlock): it can simply run again. */
export function isConflict(error: unknown): boolean {
  return ['40001', '40P01'].includes(sqlState(error) ?? '')
}

/**
 * True when a prepared statement of the session is of no use any more, while the statement itself is fine: somebody
 * changed the type of a column that it answers (0A000 from one place in the server), or dropped it (26000).
 */
export function isStaleStatement(error: unknown): boolean {
  const state = sqlState(error)
  const { routine } = error as { routine?: unknown }
  return state === '26000' || (state === '0A000' && routine === 'RevalidateCachedQuery')
}

/** The five-character SQLSTATE of a server's error, or undefined for an error of the socket. */
export function sqlState(error: unknown): string | undefined {
  const code = (error as { code?: unknown } | null | undefined)?.code
  return typeof code === 'string' && /^[0-9A-Z]{5}$/.test(code) && 'severity' in (error as object)
    ? code
    : undefined
}

/** What is known about the place where a statement failed, for its message. */
export interface FailureContext {
  /** Host, port and database. */
  where: string
  schema: string
  /** The role that logged in. */
  role?: string
  /** What the caller's role needs, to name the one that is lacking. Default: what a relay needs. */
  privileges?: Privileges
}

/**
 * Any error of a statement or a connection as one of ours, in one sentence that says what to do. Passwords
 * never appear: of a connection URL only `where` (host, port and database) is shown.
 */
export function databaseError(error: unknown, context: FailureContext): Error {
  if (error instanceof WaybillError) return error
  const state = sqlState(error)
  const { where, schema } = context
  const message = (error as { message?: string }).message ?? ''
  if (state === '42501') return permissionDenied(message, context, error)
  if (lacksOwnObject(state, message, schema)) {
    return new WaybillError(
      'SCHEMA_MISSING',
      `the schema ${JSON.stringify(schema)} of ${where} has no Waybill tables, run "waybill migrate" first (${message})`,
      { cause: error },
    )
  }
  if (failureOf(error) === 'connection') {
    return new WaybillError(
      'DATABASE_UNREACHABLE',
      `cannot use PostgreSQL at ${where}: ${describeError(error, 300)}`,
      {
        cause: error,
      },
    )
  }
  return error instanceof Error ? error : new Error(describeError(error))
}

/**
 * A schema, relation or function is missing, and it is one of ours: those are always named with their schema. Anything
 * else may be a table of the user's or an operator, which no migration makes.
 */
function lacksOwnObject(state: string | undefined, message: string, schema: string): boolean {
  if (state === '3F000') return message.includes(schema)
  return (state === '42P01' || state === '42883') && message.includes(`${schema}.`)
}

const objectInMessage = /permission denied for (database|schema|table|view|sequence|function) (.+)$/s

/** PostgreSQL names the object but neither the role nor the privilege. */
function permissionDenied(message: string, context: FailureContext, cause: unknown): WaybillError {
  const { role = 'this role', schema, privileges = relayPrivileges } = context
  const [, kind, name] = objectInMessage.exec(message) ?? []
  const who = `role ${JSON.stringify(role)}`
  if (kind === undefined || name === undefined) {
    return new WaybillError(
      'PERMISSION_DENIED',
      `${who} lacks a privilege in the schema ${JSON.stringify(schema)} (${message}): ` +
        `run this as the role that owns the tables, or let that role grant what is lacking`,
      { cause, details: { role, schema } },
    )
  }
  if (kind !== 'database' && kind !== 'schema' && !isOwnObject(name)) {
    return new WaybillError(
      'PERMISSION_DENIED',
      `${who} lacks a privilege on the ${kind} ${quoteIdentifier(name)}, which is none of Waybill's: ` +
        `let the owner of that ${kind} grant it`,
      { cause, details: { role, kind, name } },
    )
  }
  const privilege = lackingPrivilege(kind, name, privileges)
  const object = nameForGrant(kind, name, schema)
  return new WaybillError(
    'PERMISSION_DENIED',
    `${who} lacks ${privilege} on the ${kind} ${object.text}: its owner may run ` +
      `GRANT ${privilege} ON ${object.sql} TO ${quoteIdentifier(role)} (or to the role that SET ROLE chose)`,
    { cause, details: { role, kind, name, schema, privilege } },
  )
}

function lackingPrivilege(kind: string, name: string, privileges: Privileges): string {
  if (kind === 'database') return 'CREATE'
  if (kind === 'function') return 'EXECUTE'
  return (kind === 'schema' ? privileges['schema'] : privileges[name]) ?? 'SELECT'
}

function nameForGrant(kind: string, name: string, schema: string): { text: string; sql: string } {
  const quoted = quoteIdentifier(name)
  if (kind === 'database' || kind === 'schema')
    return { text: quoted, sql: `${kind.toUpperCase()} ${quoted}` }
  const text = `${quoteIdentifier(schema)}.${quoted}`
  const word = kind === 'function' || kind === 'sequence' ? `${kind.toUpperCase()} ` : ''
  return { text, sql: `${word}${text}` }
}
