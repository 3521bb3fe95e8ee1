import { describe, expect, it } from 'vitest'
import { awsMeanings, codeOf, meaningOfCode, meaningOfError } from '../../src/brokers/aws/answers.ts'
import { meaningOfEntry, toFailure } from '../../src/brokers/aws/outcomes.ts'

/** Every line of the table, written once more: name on the wire or in the SDK, code, meaning. */
const codes = [
  ['ThrottlingException', 'Throttling', 'throttled'],
  ['Throttling', 'Throttling', 'throttled'],
  ['Throttled', 'Throttled', 'throttled'],
  ['ThrottledException', 'Throttled', 'throttled'],
  ['RequestThrottled', 'RequestThrottled', 'throttled'],
  ['com.amazonaws.sqs#RequestThrottled', 'RequestThrottled', 'throttled'],
  ['RequestLimitExceeded', 'RequestLimitExceeded', 'throttled'],
  ['TooManyRequestsException', 'TooManyRequests', 'throttled'],
  ['SlowDown', 'SlowDown', 'throttled'],
  ['OverLimit', 'OverLimit', 'throttled'],
  ['KmsThrottled', 'KmsThrottled', 'throttled'],
  ['KMS.ThrottlingException', 'KMSThrottling', 'throttled'],
  ['KMSThrottlingException', 'KMSThrottling', 'throttled'],
  ['CredentialsProviderError', 'CredentialsProviderError', 'credentials'],
  ['TokenProviderError', 'TokenProviderError', 'credentials'],
  ['ExpiredToken', 'ExpiredToken', 'credentials'],
  ['ExpiredTokenException', 'ExpiredToken', 'credentials'],
  ['RequestExpired', 'RequestExpired', 'credentials'],
  ['RequestTimeTooSkewed', 'RequestTimeTooSkewed', 'credentials'],
  ['InvalidClientTokenId', 'InvalidClientTokenId', 'credentials'],
  ['UnrecognizedClientException', 'UnrecognizedClient', 'credentials'],
  ['InvalidAccessKeyId', 'InvalidAccessKeyId', 'credentials'],
  ['InvalidSignatureException', 'InvalidSignature', 'credentials'],
  ['SignatureDoesNotMatch', 'SignatureDoesNotMatch', 'credentials'],
  ['IncompleteSignature', 'IncompleteSignature', 'credentials'],
  ['MissingAuthenticationToken', 'MissingAuthenticationToken', 'credentials'],
  ['InvalidSecurity', 'InvalidSecurity', 'credentials'],
  ['OptInRequired', 'OptInRequired', 'credentials'],
  ['InternalError', 'InternalError', 'internal'],
  ['InternalErrorException', 'InternalError', 'internal'],
  ['InternalFailure', 'InternalFailure', 'internal'],
  ['InternalServerError', 'InternalServerError', 'internal'],
  ['ServiceUnavailable', 'ServiceUnavailable', 'internal'],
  ['QueueDoesNotExist', 'QueueDoesNotExist', 'missing'],
  ['AWS.SimpleQueueService.NonExistentQueue', 'NonExistentQueue', 'missing'],
  ['AWS.SimpleQueueService.QueueDeletedRecently', 'QueueDeletedRecently', 'missing'],
  ['NotFoundException', 'NotFound', 'missing'],
  ['ResourceNotFoundException', 'ResourceNotFound', 'missing'],
  ['AccessDenied', 'AccessDenied', 'denied'],
  ['AccessDeniedException', 'AccessDenied', 'denied'],
  ['AuthorizationErrorException', 'AuthorizationError', 'denied'],
  ['KmsAccessDenied', 'KmsAccessDenied', 'denied'],
  ['KMS.NotFoundException', 'KMSNotFound', 'denied'],
  ['KMSDisabledException', 'KMSDisabled', 'denied'],
  ['KmsInvalidState', 'KmsInvalidState', 'denied'],
  ['InvalidMessageContents', 'InvalidMessageContents', 'message'],
  ['AWS.SimpleQueueService.InvalidMessageContents', 'InvalidMessageContents', 'message'],
  ['InvalidParameterValueException', 'InvalidParameterValue', 'message'],
  ['InvalidParameterException', 'InvalidParameter', 'message'],
  ['MissingParameter', 'MissingParameter', 'message'],
  ['AWS.SimpleQueueService.BatchRequestTooLong', 'BatchRequestTooLong', 'message'],
] as const

describe('a code of AWS', () => {
  it.each(codes)('%s is %s: %s', (name, code, meaning) => {
    expect(codeOf(name)).toBe(code)
    expect(meaningOfCode(code)).toBe(meaning)
    expect(meaningOfError(Object.assign(new Error('x'), { name }))).toEqual({ meaning, code })
  })

  it('is in the table only with a line here', () => {
    const tested = new Set(codes.map(([, code]) => code as string))
    expect(Object.keys(awsMeanings).filter((code) => !tested.has(code))).toEqual([])
  })

  it.each(['constructor', '__proto__', 'SomethingNew', '', 'Exception'])(
    'that is not known is not invented: %j',
    (name) => expect(meaningOfCode(codeOf(name))).toBeUndefined(),
  )
})

describe('an error without a known code', () => {
  const status = (httpStatusCode: number) => ({ $metadata: { httpStatusCode } })
  it.each([
    ['status 429', status(429), 'throttled'],
    ['status 401', status(401), 'denied'],
    ['status 403', status(403), 'denied'],
    ['status 500', status(500), 'internal'],
    ['status 503', status(503), 'internal'],
    ['status 400', status(400), 'unknown'],
    ['an answer that is no AWS', { name: 'SyntaxError', $response: { statusCode: 502 } }, 'internal'],
    ['a hint of the SDK', { ...status(400), $retryable: { throttling: true } }, 'throttled'],
    ['refused', { code: 'ECONNREFUSED', syscall: 'connect' }, 'away'],
    ['a connection that is not made in time', { code: 'ETIMEDOUT', syscall: 'connect' }, 'away'],
    ['a name that is not found', { code: 'ENOTFOUND', syscall: 'getaddrinfo' }, 'away'],
    ['a resolver that is away', { code: 'EAI_AGAIN', syscall: 'getaddrinfo' }, 'away'],
    ['no route', { code: 'EHOSTUNREACH' }, 'away'],
    ['no network', { code: 'ENETUNREACH' }, 'away'],
    ['a certificate that is not trusted', { code: 'DEPTH_ZERO_SELF_SIGNED_CERT' }, 'away'],
    ['a certificate without its issuer', { code: 'UNABLE_TO_VERIFY_LEAF_SIGNATURE' }, 'away'],
    ['a certificate that ran out', { code: 'CERT_HAS_EXPIRED' }, 'away'],
    ['another name in the certificate', { code: 'ERR_TLS_CERT_ALTNAME_INVALID' }, 'away'],
    ['no TLS', { code: 'ERR_SSL_WRONG_VERSION_NUMBER' }, 'away'],
    ['no TLS, as older systems say', { code: 'EPROTO' }, 'away'],
    ['a reset', { code: 'ECONNRESET', syscall: 'read' }, 'silent'],
    ['a socket that was closed', { code: 'EPIPE', syscall: 'write' }, 'silent'],
    ['an abort by somebody else', { name: 'AbortError' }, 'silent'],
    ['no answer', { name: 'TimeoutError', message: 'the request timed out' }, 'silent'],
    [
      'no connection',
      { name: 'TimeoutError', message: 'Socket timed out without establishing a connection within 5 ms' },
      'away',
    ],
    ['no region', { message: 'Region is missing' }, 'credentials'],
    ['a mistake', { name: 'TypeError' }, 'unknown'],
  ])('%s: %j is %s', (_what, fields, meaning) => {
    const error = new Error('x')
    // As the SDK has some of them: a copy would not hold them.
    for (const [name, value] of Object.entries(fields)) {
      Object.defineProperty(error, name, { value, enumerable: false })
    }
    expect(meaningOfError(error).meaning).toBe(meaning)
  })

  it.each([undefined, null, 'text', 5])('may be anything: %j', (thrown) => {
    expect(meaningOfError(thrown).meaning).toBe('unknown')
  })
})

describe('an entry that is not taken', () => {
  it.each([
    [{ Code: 'SomethingNew', SenderFault: true }, 'message'],
    [{ Code: 'SomethingNew', SenderFault: false }, 'unknown'],
    [{}, 'unknown'],
    [{ Code: 'InvalidParameterValue', SenderFault: true }, 'message'],
    // AWS calls these the sender's fault, too; the message is not the reason.
    [{ Code: 'RequestThrottled', SenderFault: true }, 'throttled'],
    [{ Code: 'KMS.AccessDeniedException', SenderFault: true }, 'denied'],
    [{ Code: 'InternalError', SenderFault: false }, 'unknown'],
  ] as const)('%j is %s', (entry, meaning) => expect(meaningOfEntry(entry)).toBe(meaning))
})

describe('the result', () => {
  const context = {
    name: 'bus',
    kind: 'queue',
    place: 'https://sqs.eu-central-1.amazonaws.com/123456789012/orders',
    region: 'eu-central-1',
    othersWork: false,
  }
  const cause = new Error('what AWS said')

  it.each([
    ['throttled', 'retry', 'BROKER_UNAVAILABLE', 'bus: queue "orders" takes no more for a moment'],
    [
      'credentials',
      'retry',
      'BROKER_UNAVAILABLE',
      'bus: AWS accepts no credentials here (Code: what AWS said): set',
    ],
    ['away', 'retry', 'BROKER_UNAVAILABLE', 'bus: no connection to AWS'],
    ['internal', 'retry', 'BROKER_UNAVAILABLE', 'bus: queue "orders": Code: what AWS said'],
    [
      'missing',
      'retry',
      'BROKER_UNAVAILABLE',
      'bus: there is no queue "orders" in eu-central-1 (Code): create',
    ],
    [
      'denied',
      'retry',
      'BROKER_UNAVAILABLE',
      'bus: queue "orders" may not be used (Code: what AWS said): allow',
    ],
    ['message', 'reject', 'EVENT_REJECTED', 'bus: queue "orders" refused the message (Code: what AWS said)'],
    ['silent', 'retry', 'PUBLISH_TIMEOUT', 'bus: queue "orders": Code: what AWS said'],
    ['unknown', 'retry', 'PUBLISH_FAILED', 'bus: queue "orders": Code: what AWS said'],
  ] as const)('of %s is %s with %s', (meaning, status, code, text) => {
    expect(toFailure(meaning, 'Code', cause, context)).toMatchObject({
      status,
      error: { code, message: expect.stringContaining(text), cause },
    })
  })

  it.each(['missing', 'denied'] as const)('of %s is no outage while others get through', (meaning) => {
    const result = toFailure(meaning, 'Code', { Message: 'no' }, { ...context, othersWork: true })
    expect(result).toMatchObject({ status: 'retry', error: { code: 'PUBLISH_FAILED' } })
  })

  it('of throttling asks for a pause', () => {
    expect(toFailure('throttled', 'Throttling', cause, context)).toMatchObject({
      error: { details: { afterMs: 1000 } },
    })
  })

  it('of a refusal tells refusals apart by their code', () => {
    expect(toFailure('message', 'InvalidParameter', cause, context)).toMatchObject({
      error: { details: { answer: 'InvalidParameter' } },
    })
  })
})
