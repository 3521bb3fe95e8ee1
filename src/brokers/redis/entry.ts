import type { Encoder } from '../../publishing/format.ts'
import { type Message, undeliverable } from '../../publishing/publisher.ts'

/** A message as an entry of a stream: names and values in turn, the headers first, then `body`. */
export interface RedisEntry {
  readonly stream: string
  readonly fields: readonly string[]
}

/** @throws EVENT_UNDELIVERABLE when the body is larger than allowed; Redis itself takes any name and any text. */
export function toRedisEntry(message: Message, encoder: Encoder, maxMessageBytes: number): RedisEntry {
  const { body, headers } = encoder.encode(message)
  // A character has at most three bytes for each unit of its length: short bodies need no count.
  const bytes = body.length * 3 > maxMessageBytes ? Buffer.byteLength(body) : 0
  if (bytes > maxMessageBytes) {
    throw undeliverable(`the body has ${bytes} bytes, more than the ${maxMessageBytes} of maxMessageBytes`)
  }
  return { stream: message.topic, fields: [...headers.flat(), 'body', body] }
}
