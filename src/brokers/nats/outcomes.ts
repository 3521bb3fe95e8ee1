import type { PubAck } from '@nats-io/jetstream'
import { describeError } from '../../errors.ts'
import { showName } from '../../publishing/headers.ts'
import {
  type PublishResult,
  brokerUnavailable,
  publishFailed,
  publishTimeout,
  rejectedBy,
  undeliverable,
} from '../../publishing/publisher.ts'

/**
 * - `stream`: no stream takes the subject, it is not the expected one, or JetStream is off;
 * - `full`: the stream, the account or the server has no room, or takes nothing now;
 * - `subject`: the subject has no room in its stream, or this user may not publish to it: other subjects pass;
 * - `inbox`: this user may not receive answers;
 * - `busy`: JetStream is still at work on this very message;
 * - `refused`: the stream never takes this message;
 * - `payload`: the server has lowered its limit since the message was measured;
 * - `stranger`: somebody else than JetStream answered on the subject;
 * - `lost`: the connection ended before the answer;
 * - `other`: an answer that is not in this table.
 */
export type NatsFailure =
  'stream' | 'full' | 'subject' | 'inbox' | 'busy' | 'refused' | 'payload' | 'stranger' | 'lost' | 'other'

/** JetStream's own codes that an answer to a publication can have. */
const codes: Readonly<Record<number, NatsFailure>> = {
  10002: 'full', // resource limits exceeded for account
  10007: 'full', // JetStream cluster not assigned to this server
  10008: 'full', // JetStream system temporarily unavailable
  10009: 'full', // JetStream cluster can not handle request
  10023: 'full', // insufficient resources
  10028: 'full', // insufficient memory resources available
  10039: 'stream', // JetStream not enabled for account
  10041: 'full', // an error of the cluster's consensus
  10047: 'full', // insufficient storage resources available
  10054: 'refused', // message size exceeds maximum allowed
  10060: 'stream', // expected stream does not match
  10076: 'stream', // JetStream not enabled
  10077: 'full', // the store failed: maximum messages or bytes exceeded with discard=new, a full disk
  10097: 'refused', // header size exceeds maximum allowed of 64k
  10109: 'full', // invalid operation on sealed stream
  10118: 'full', // stream is offline
  10158: 'busy', // duplicate message id is in process
  10167: 'full', // too many requests
  10194: 'full', // stream is offline, with the reason
}

interface ClientError {
  name?: unknown
  cause?: unknown
  code?: unknown
  status?: unknown
  operation?: unknown
}

/** By names and codes, not by classes: the client's are loaded only when it is used. */
export function natsFailureOf(error: unknown): NatsFailure {
  const { name, cause, code, status, operation } = (error ?? {}) as ClientError
  switch (name) {
    case 'JetStreamApiError':
    case 'StreamNotFoundError':
      return failureOfAnswer(error, code, status)
    case 'JetStreamNotEnabled':
      return 'stream'
    case 'PermissionViolationError':
      return operation === 'publish' ? 'subject' : 'inbox'
    case 'InvalidArgumentError':
      return 'payload'
    case 'SyntaxError':
    case 'TypeError':
      return 'stranger'
    case 'RequestError':
      return cause === undefined ? 'lost' : natsFailureOf(cause)
    case 'ClosedConnectionError':
    case 'DrainingConnectionError':
    case 'TimeoutError':
      return 'lost'
    default:
      return 'other'
  }
}

function failureOfAnswer(error: unknown, code: unknown, status: unknown): NatsFailure {
  // A stream may have a limit for each subject: that it is reached says nothing about the others.
  if (describeError(error).includes('per subject')) return 'subject'
  return codes[code as number] ?? (status === 503 ? 'full' : 'other')
}

/** The result for JetStream's answer, or for undefined: no word yet. */
export function natsResult(name: string, subject: string, answer: PubAck | Error | undefined): PublishResult {
  if (answer === undefined) {
    return { status: 'retry', error: publishTimeout(`${name} did not confirm in time`) }
  }
  if (answer instanceof Error) return failed(name, subject, natsFailureOf(answer), answer)
  const { stream, seq } = answer as { stream?: unknown; seq?: unknown }
  if (typeof stream !== 'string' || typeof seq !== 'number') {
    return failed(name, subject, 'stranger', undefined)
  }
  // Older clusters confirm a repeated message while its first copy is not stored yet.
  if (seq === 0) return failed(name, subject, 'busy', undefined)
  return { status: 'published', receipt: `nats:${stream}@${seq}` }
}

function failed(
  name: string,
  subject: string,
  failure: NatsFailure,
  cause: Error | undefined,
): PublishResult {
  const said = cause === undefined ? '' : ` (${describeError(cause, 300)})`
  const where = `${name}, subject ${showName(subject)}`
  const options = { cause }
  switch (failure) {
    case 'stream':
      return retry(brokerUnavailable(`${where}: ${noStream(cause)}${said}`, options))
    case 'full':
      return retry(brokerUnavailable(`${where}: JetStream takes no messages now${said}`, options))
    case 'inbox':
      return retry(
        brokerUnavailable(`${name}: the user may not receive answers, allow its inbox${said}`, options),
      )
    case 'refused':
      return {
        status: 'reject',
        error: rejectedBy(
          describeError(cause, 100),
          `${where}: the stream refuses the message${said}`,
          options,
        ),
      }
    case 'payload':
      return { status: 'reject', error: undeliverable(`${where}: too large for the server${said}`, options) }
    case 'lost':
      return retry(publishTimeout(`${where}: the connection ended before the answer${said}`, options))
    case 'busy':
      return retry(publishFailed(`${where}: JetStream is still at work on this message${said}`, options))
    case 'stranger':
      return retry(
        publishFailed(
          `${where}: the answer is not JetStream's, something else listens to this subject${said}`,
          options,
        ),
      )
    case 'subject':
    case 'other':
      return retry(publishFailed(`${where}: not stored${said}`, options))
  }
}

function retry(error: Error): PublishResult {
  return { status: 'retry', error }
}

function noStream(cause: unknown): string {
  return (cause as ClientError | undefined)?.code === 10060
    ? 'the stream that takes it is not the one of the option "stream"'
    : 'no stream takes it, create one whose subjects include it, or turn JetStream on'
}
