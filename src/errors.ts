/**
 * The one registry of error codes. Each code stands with its meaning in `docs/reference/errors.md`;
 * a test compares the two in both directions.
 */
export const errorCodes = {
  CONFIGURATION_INVALID: 'an option, environment variable or configuration file has a wrong key or value',
  USAGE_INVALID: 'a command was called with wrong words',
  DATABASE_UNREACHABLE: 'PostgreSQL could not be reached',
  DATABASE_TIMEOUT: 'PostgreSQL did not answer in time',
  PERMISSION_DENIED: 'the database role lacks a privilege',
  SCHEMA_MISSING: 'the schema has not been migrated',
  SCHEMA_OUTDATED: 'the schema is older than this program needs',
  SCHEMA_NEWER: 'the schema is newer than this program knows',
  NOT_IN_TRANSACTION: 'publish was called with a handle that is not inside a transaction',
  TRANSACTION_FAILED: 'an earlier statement of the transaction failed, PostgreSQL takes nothing more in it',
  EVENT_INVALID: 'a field of an event has a value that cannot be stored or delivered',
  EVENT_TYPE_UNKNOWN: 'the event type is not in the catalogue given to createOutbox',
  PAYLOAD_INVALID: 'the payload does not match the schema of its event type',
  REVISION_CONFLICT: 'the revision was published before, or a newer one was',
  EVENT_NOT_FOUND: 'no event has this id',
  REVISION_UNKNOWN: 'nothing is known of this aggregate or revision',
  EVENT_UNDELIVERABLE: 'this event can never be delivered as it is',
  EVENT_REJECTED: 'the destination refused this event for good',
  BROKER_UNAVAILABLE: 'the destination cannot be reached or refuses all work for now',
  PUBLISH_FAILED: 'the destination answered that this event failed, it may succeed later',
  PUBLISH_TIMEOUT: 'the destination did not answer one publish call in time',
  DELIVERY_INVALID: 'a message that a consumer got is no event in a form that it knows',
  HANDLER_TIMEOUT: 'a handler did not end in time',
  PROJECTION_BEHIND: 'a projection did not show the revision in time',
  DEPENDENCY_MISSING: 'an optional library is not installed',
  LEASE_LOST: 'another relay owns the bucket now',
  ACTION_REFUSED: 'the action would do harm as asked; the message says what would make it safe',
  UNAUTHORIZED: 'the HTTP request lacks the token or the custom header',
} as const

export type ErrorCode = keyof typeof errorCodes

/** Codes for which the same call may succeed later, unchanged. */
const retryableCodes: ReadonlySet<ErrorCode> = new Set<ErrorCode>([
  'DATABASE_UNREACHABLE',
  'DATABASE_TIMEOUT',
  'BROKER_UNAVAILABLE',
  'PUBLISH_FAILED',
  'PUBLISH_TIMEOUT',
  'HANDLER_TIMEOUT',
  'PROJECTION_BEHIND',
])

/**
 * Every error that Waybill throws. `code` is stable and listed in the documentation; `message` is one
 * sentence that says what is wrong and what to do, and never holds a password or a payload.
 */
export class WaybillError extends Error {
  override readonly name = 'WaybillError'
  readonly code: ErrorCode
  /** True when the same call may succeed later without a change. */
  readonly retryable: boolean
  /** Structured facts about the error, for programs. */
  readonly details: Readonly<Record<string, unknown>>

  constructor(
    code: ErrorCode,
    message: string,
    options: { cause?: unknown; details?: Record<string, unknown>; retryable?: boolean } = {},
  ) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause })
    this.code = code
    this.retryable = options.retryable ?? retryableCodes.has(code)
    this.details = Object.freeze({ ...options.details })
  }

  /**
   * For `JSON.stringify`: `{ name, code, message, retryable, details }`, a bigint of `details` as decimal text. The
   * cause is left out: it is somebody else's error, and may hold a statement with its values.
   */
  toJSON(): {
    name: string
    code: ErrorCode
    message: string
    retryable: boolean
    details: Record<string, unknown>
  } {
    const { name, code, message, retryable } = this
    const text = JSON.stringify(this.details, (_key, value: unknown) =>
      typeof value === 'bigint' ? value.toString() : value,
    )
    return { name, code, message, retryable, details: JSON.parse(text) as Record<string, unknown> }
  }
}

/** True when `error` is a {@link WaybillError} with this code (works across copies of the package). */
export function hasCode(error: unknown, code: ErrorCode): error is WaybillError {
  return error instanceof Error && error.name === 'WaybillError' && (error as WaybillError).code === code
}

/**
 * Any thrown value as bounded, storable text: never throws, whatever the value is (undefined, a circular
 * cause, a throwing getter), has no U+0000 and no lone surrogate, and is at most `limit` characters.
 */
export function describeError(error: unknown, limit = 2000): string {
  return cleanText(describe(error), limit)
}

function describe(error: unknown): string {
  try {
    if (!(error instanceof Error)) return typeof error === 'string' ? error : `thrown: ${String(error)}`
    const parts: string[] = []
    const seen = new Set<unknown>()
    for (let e: unknown = error; e instanceof Error && !seen.has(e) && parts.length < 5; e = e.cause) {
      seen.add(e)
      // An AggregateError of a refused connection has an empty message and tells all in its members.
      const text = e.message || (e instanceof AggregateError ? describe(e.errors[0]) : e.name)
      if (!parts.some((part) => part.includes(text))) parts.push(text)
    }
    return parts.join(': ')
  } catch {
    return 'an error that cannot be described'
  }
}

/** Text that PostgreSQL can store, cut to `limit` characters with an ellipsis. */
export function cleanText(text: string, limit: number): string {
  const bounded = text.length > limit * 2 ? text.slice(0, limit * 2) : text
  // eslint-disable-next-line no-control-regex -- U+0000 is exactly what must go
  const clean = bounded.replaceAll('\u0000', '\uFFFD').toWellFormed()
  return clean.length <= limit
    ? clean
    : `${clean
        .slice(0, limit - 1)
        .toWellFormed()
        .replace(/\uFFFD$/, '')}…`
}
