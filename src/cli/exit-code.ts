import { type ErrorCode, WaybillError } from '../errors.ts'

/** What the exit code of every command says. */
export const exitCodes = {
  done: 0,
  failed: 1,
  usage: 2,
  unreachable: 3,
} as const

const special: Partial<Record<ErrorCode, number>> = {
  CONFIGURATION_INVALID: exitCodes.usage,
  USAGE_INVALID: exitCodes.usage,
  // The configuration names a broker that is not there: starting it again changes nothing.
  DEPENDENCY_MISSING: exitCodes.usage,
  DATABASE_UNREACHABLE: exitCodes.unreachable,
  DATABASE_TIMEOUT: exitCodes.unreachable,
}

/** 2 for a mistake of the caller, 3 when the database does not answer, 1 for everything else. */
export function exitCodeOf(error: unknown): number {
  return (error instanceof WaybillError ? special[error.code] : undefined) ?? exitCodes.failed
}
