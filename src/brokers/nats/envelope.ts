import type { MsgHdrs } from '@nats-io/transport-node'
import type { Encoder } from '../../publishing/format.ts'
import { type HeaderPair, showName } from '../../publishing/headers.ts'
import { type Message, undeliverable } from '../../publishing/publisher.ts'

export interface EnvelopeRules {
  /** The client's own constructor of headers. */
  readonly createHeaders: () => MsgHdrs
  /** Largest message that the server takes, headers included, in bytes. */
  readonly maxPayload: number
  /** The stream that is expected. */
  readonly stream: string | undefined
}

/** A message in the terms of NATS. */
export interface NatsMessage {
  readonly subject: string
  readonly headers: MsgHdrs
  readonly data: Uint8Array
}

/** A longer one, together with the rest of its line, would make the server close the connection under its neighbours. */
const maxSubjectBytes = 2000
/** JetStream refuses more, whatever `max_payload` is. */
const maxHeaderBytes = 65_535

/** @throws EVENT_UNDELIVERABLE when NATS cannot carry it */
export function toNatsMessage(message: Message, encoder: Encoder, rules: EnvelopeRules): NatsMessage {
  const { topic: subject } = message
  checkSubject(subject)
  const { body, headers: pairs } = encoder.encode(message)
  const data = Buffer.from(body, 'utf8')
  const headers = rules.createHeaders()
  // The first line and the empty last one.
  let headerBytes = 12
  for (const [name, value] of [...orders(message, rules), ...pairs]) {
    headers.append(name, value)
    // Names and values are ASCII here.
    headerBytes += name.length + value.length + 4
  }
  if (headerBytes > maxHeaderBytes) {
    throw undeliverable(`the headers have ${headerBytes} bytes, more than the ${maxHeaderBytes} of JetStream`)
  }
  const bytes = headerBytes + data.length
  if (bytes > rules.maxPayload) {
    throw undeliverable(
      `the message has ${bytes} bytes with its headers, more than the ${rules.maxPayload} of the server's max_payload`,
    )
  }
  return { subject, headers, data }
}

/** What JetStream is told: by which id it deduplicates, and which stream it must be. */
function orders({ messageId }: Message, { stream }: EnvelopeRules): HeaderPair[] {
  const id = ['Nats-Msg-Id', messageId] as const
  return stream === undefined ? [id] : [id, ['Nats-Expected-Stream', stream]]
}

const forbidden = /[\x00-\x20\x7f*>]/
const emptyToken = /^\.|\.\.|\.$|^$/
// Published there, an event would be taken for a request to the server, or for an answer.
const systems = /^(\$JS|\$SYS|_INBOX)\./

function checkSubject(subject: string): void {
  const problem = forbidden.test(subject)
    ? 'has a space, a control character, * or >'
    : emptyToken.test(subject)
      ? 'has an empty part between its dots'
      : systems.test(subject)
        ? 'belongs to the server itself'
        : isLong(subject)
          ? `has more than ${maxSubjectBytes} bytes`
          : undefined
  if (problem !== undefined) {
    throw undeliverable(
      `the subject ${showName(subject)} ${problem}, which NATS cannot carry: give the event another topic by a route`,
    )
  }
}

function isLong(subject: string): boolean {
  return subject.length > maxSubjectBytes / 3 && Buffer.byteLength(subject) > maxSubjectBytes
}
