/**
 * What an error of AWS, or of its SDK, is about:
 *
 * - `throttled`: too many requests, of this queue or of all;
 * - `credentials`: there are none, or they are not accepted: nothing gets through;
 * - `away`: no connection was made;
 * - `internal`: AWS itself has a fault;
 * - `missing`: there is no such queue or topic;
 * - `denied`: it is there, and may not be written to (a policy, the key that encrypts it);
 * - `message`: AWS will never take this message;
 * - `silent`: it was sent, and no answer came;
 * - `unknown`: anything else.
 */
export type AwsMeaning =
  'throttled' | 'credentials' | 'away' | 'internal' | 'missing' | 'denied' | 'message' | 'silent' | 'unknown'

/** Codes as `codeOf` gives them. A code of KMS that is not here is `denied`. */
export const awsMeanings: Readonly<Record<string, AwsMeaning>> = {
  Throttling: 'throttled',
  Throttled: 'throttled',
  RequestThrottled: 'throttled',
  RequestLimitExceeded: 'throttled',
  TooManyRequests: 'throttled',
  SlowDown: 'throttled',
  OverLimit: 'throttled',
  KmsThrottled: 'throttled',
  KMSThrottling: 'throttled',

  CredentialsProviderError: 'credentials',
  TokenProviderError: 'credentials',
  ExpiredToken: 'credentials',
  RequestExpired: 'credentials',
  RequestTimeTooSkewed: 'credentials',
  InvalidClientTokenId: 'credentials',
  UnrecognizedClient: 'credentials',
  InvalidAccessKeyId: 'credentials',
  InvalidSignature: 'credentials',
  SignatureDoesNotMatch: 'credentials',
  IncompleteSignature: 'credentials',
  MissingAuthenticationToken: 'credentials',
  InvalidSecurity: 'credentials',
  OptInRequired: 'credentials',

  InternalError: 'internal',
  InternalFailure: 'internal',
  InternalServerError: 'internal',
  ServiceUnavailable: 'internal',

  QueueDoesNotExist: 'missing',
  NonExistentQueue: 'missing',
  QueueDeletedRecently: 'missing',
  NotFound: 'missing',
  ResourceNotFound: 'missing',

  AccessDenied: 'denied',
  AuthorizationError: 'denied',

  InvalidMessageContents: 'message',
  InvalidParameterValue: 'message',
  InvalidParameter: 'message',
  MissingParameter: 'message',
  BatchRequestTooLong: 'message',
}

/** The code without what differs between protocols and versions: prefix, and `Exception` at the end. */
export function codeOf(name: string): string {
  const kms = /^KMS\./i.exec(name)?.[0] ?? ''
  const bare = name.slice(Math.max(name.lastIndexOf('.'), name.lastIndexOf('#')) + 1)
  return (kms === '' ? bare : `KMS${bare}`).replace(/(?!^)Exception$/, '')
}

export function meaningOfCode(code: string): AwsMeaning | undefined {
  if (Object.hasOwn(awsMeanings, code)) return awsMeanings[code]
  return /^KMS/i.test(code) ? 'denied' : undefined
}

function meaningOfStatus(status: number): AwsMeaning {
  if (status === 429) return 'throttled'
  if (status === 401 || status === 403) return 'denied'
  return status >= 500 ? 'internal' : 'unknown'
}

/** All that the SDK says when it has no region. */
export const noRegion = 'Region is missing'

interface SdkError {
  name?: string
  message?: string
  code?: unknown
  syscall?: unknown
  $metadata?: { httpStatusCode?: number }
  $response?: { statusCode?: number }
  $retryable?: { throttling?: boolean }
}

const unconnected =
  /^(ECONNREFUSED|ENOTFOUND|EAI_AGAIN|EHOSTUNREACH|ENETUNREACH|EPROTO|CERT_.*|UNABLE_.*|.*SELF_SIGNED_CERT.*|ERR_TLS.*|ERR_SSL.*)$/
const lost = /^(ECONNRESET|EPIPE|ECONNABORTED|ETIMEDOUT)$/

/** The meaning of what a request was rejected with, and its code for messages. */
export function meaningOfError(error: unknown): { meaning: AwsMeaning; code: string } {
  // Not all of these are seen by a copy of the error.
  const {
    name = '',
    message = '',
    code,
    syscall,
    $metadata,
    $response,
    $retryable,
  } = (error ?? {}) as SdkError
  const aws = codeOf(name)
  const known = meaningOfCode(aws)
  if (known !== undefined) return { meaning: known, code: aws }
  const status = $metadata?.httpStatusCode ?? $response?.statusCode
  if ($retryable?.throttling === true) return { meaning: 'throttled', code: aws }
  if (status !== undefined) return { meaning: meaningOfStatus(status), code: aws }
  const system = typeof code === 'string' ? code : name
  if (syscall === 'connect' || unconnected.test(system)) return { meaning: 'away', code: system }
  if (name === 'AbortError') return { meaning: 'silent', code: system }
  if (name === 'TimeoutError') {
    return { meaning: /establishing a connection/.test(message) ? 'away' : 'silent', code: system }
  }
  if (lost.test(system)) return { meaning: 'silent', code: system }
  if (message === noRegion) return { meaning: 'credentials', code: noRegion }
  return { meaning: 'unknown', code: system }
}
