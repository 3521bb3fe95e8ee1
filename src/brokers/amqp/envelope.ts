import type { Envelope } from 'rabbitmq-client'
import type { Encoder } from '../../publishing/format.ts'
import { showName } from '../../publishing/headers.ts'
import { type Message, undeliverable } from '../../publishing/publisher.ts'

export interface EnvelopeRules {
  readonly exchange: string
  readonly mandatory: boolean
  readonly maxMessageBytes: number
}

/** A message in the terms of AMQP 0-9-1. */
export interface Enveloped {
  readonly envelope: Envelope & { readonly messageId: string; readonly routingKey: string }
  readonly body: Buffer
  /** Size of the frame with the properties, which cannot be split. */
  readonly headerBytes: number
}

/** @throws EVENT_UNDELIVERABLE when a part is larger than AMQP can carry; the library would cut it silently. */
export function toEnvelope(message: Message, encoder: Encoder, rules: EnvelopeRules): Enveloped {
  const { exchange, mandatory, maxMessageBytes } = rules
  const { body, contentType, headers } = encoder.encode(message)
  if (!isShort(message.topic)) {
    throw undeliverable(
      `the routing key ${showName(message.topic)} has more than 255 bytes, which AMQP cannot carry: ` +
        'give the event a shorter topic by a route',
    )
  }
  const buffer = Buffer.from(body, 'utf8')
  if (buffer.length > maxMessageBytes) {
    throw undeliverable(
      `the body has ${buffer.length} bytes, more than the ${maxMessageBytes} of maxMessageBytes`,
    )
  }
  const envelope = {
    exchange,
    routingKey: message.topic,
    mandatory,
    durable: true,
    messageId: message.messageId,
    timestamp: secondsOf(message.createdAt),
    contentType,
    headers: Object.fromEntries(headers),
    // A type of more than 255 bytes is left out here; the header with it stays.
    ...(isShort(message.eventType) ? { type: message.eventType } : {}),
  }
  return { envelope, body: buffer, headerBytes: headerBytes(envelope) }
}

/** AMQP knows no time before 1970; the header has it. */
function secondsOf(createdAt: string): number {
  const seconds = Math.floor(Date.parse(createdAt) / 1000)
  return seconds >= 0 ? seconds : 0
}

function isShort(text: string): boolean {
  return text.length <= 85 || Buffer.byteLength(text) <= 255
}

/** An upper bound: 64 bytes for what has a fixed size. */
function headerBytes(envelope: {
  messageId: string
  contentType: string
  type?: string
  headers: Record<string, string>
}): number {
  const { messageId, contentType, type = '', headers } = envelope
  let bytes = 64 + Buffer.byteLength(messageId) + contentType.length + Buffer.byteLength(type)
  for (const name in headers) bytes += 6 + Buffer.byteLength(name) + Buffer.byteLength(headers[name]!)
  return bytes
}
