import { type ErrorCode, WaybillError } from '../errors.ts'

/** What every failed request answers: `{ "error": { "code": "…", "message": "…" } }`. */
export interface ErrorBody {
  readonly error: { readonly code: ErrorCode | HttpOnlyCode; readonly message: string }
}

/** Codes that only HTTP has; all others are those of the registry. */
export const httpOnlyCodes = {
  NOT_FOUND: 'there is nothing at this path',
  METHOD_NOT_ALLOWED: 'the path does not take this method',
  BODY_TOO_LARGE: 'the body is larger than 1 MiB',
  INTERNAL: 'an error that has no code; the log of the relay has more',
} as const
export type HttpOnlyCode = keyof typeof httpOnlyCodes

const statuses: Partial<Record<ErrorCode, number>> = {
  USAGE_INVALID: 400,
  CONFIGURATION_INVALID: 400,
  UNAUTHORIZED: 401,
  EVENT_NOT_FOUND: 404,
  REVISION_UNKNOWN: 404,
  ACTION_REFUSED: 409,
  DATABASE_UNREACHABLE: 503,
  DATABASE_TIMEOUT: 503,
  SCHEMA_MISSING: 503,
  SCHEMA_OUTDATED: 503,
  SCHEMA_NEWER: 503,
}

/** The HTTP status that an error is answered with. */
export function statusOf(error: WaybillError): number {
  const { status } = error.details
  return typeof status === 'number' ? status : (statuses[error.code] ?? 500)
}

/** No token, or the wrong one. */
export function unauthorized(): WaybillError {
  return new WaybillError(
    'UNAUTHORIZED',
    'this needs the header "Authorization: Bearer <token>" with the configured token',
  )
}

/** Refused whoever asks: the request does not come from where it must come from. */
export function forbidden(message: string): WaybillError {
  return new WaybillError('UNAUTHORIZED', message, { details: { status: 403 } })
}
