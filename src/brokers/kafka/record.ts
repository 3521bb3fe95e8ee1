import type { Encoder } from '../../publishing/format.ts'
import { showName } from '../../publishing/headers.ts'
import { type Message, undeliverable } from '../../publishing/publisher.ts'

/** A message in the terms of Kafka. */
export interface KafkaRecord {
  readonly key: string
  readonly value: string
  readonly headers: Record<string, string>
  /** Where it goes, once the partitioner has said so. */
  partition?: number
}

export interface Prepared {
  readonly topic: string
  readonly record: KafkaRecord
  /** Of a batch with nothing else in it: what the broker compares with its max.message.bytes. */
  readonly bytes: number
}

// What Kafka allows; '.' and '..' would be folders.
const topicName = /^(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}$/

/** @throws EVENT_UNDELIVERABLE for a topic that no Kafka can have, and for what is larger than `maxMessageBytes` */
export function toRecord(message: Message, encoder: Encoder, maxMessageBytes: number): Prepared {
  const { topic, aggregateId: key } = message
  if (!topicName.test(topic)) {
    throw undeliverable(
      `Kafka has no topic ${showName(topic)}: a name has 1 to 249 of the characters A-Z, a-z, 0-9, ".", "_" and "-"; ` +
        'give the event such a topic by a route',
    )
  }
  const { body: value, headers: pairs } = encoder.encode(message)
  const headers = Object.fromEntries(pairs)
  const bytes = batchBytes(key, value, pairs)
  if (bytes > maxMessageBytes) {
    throw undeliverable(
      `with key and headers the message has ${bytes} bytes, more than the ${maxMessageBytes} of maxMessageBytes`,
    )
  }
  return { topic, record: { key, value, headers }, bytes }
}

// The head of a record batch of version 2, which every request has once for each partition.
const batchHeadBytes = 61

/** The size of a batch with this record alone, as the format of Kafka's log says it. */
function batchBytes(key: string, value: string, headers: readonly (readonly [string, string])[]): number {
  // Attributes and the two deltas, which are 0.
  let bytes = 3 + counted(key) + counted(value) + varintBytes(headers.length)
  for (const [name, text] of headers) bytes += counted(name) + counted(text)
  return batchHeadBytes + varintBytes(bytes) + bytes
}

function counted(text: string): number {
  const bytes = Buffer.byteLength(text)
  return varintBytes(bytes) + bytes
}

/** Of a number that is not negative: seven bits to a byte, one of them lost to the sign. */
function varintBytes(value: number): number {
  return value < 64 ? 1 : value < 8192 ? 2 : value < 1_048_576 ? 3 : value < 134_217_728 ? 4 : 5
}
