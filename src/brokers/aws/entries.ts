import { isXmlText } from '../../publishing/bindings.ts'
import type { Encoder } from '../../publishing/format.ts'
import { type Message, undeliverable } from '../../publishing/publisher.ts'
import { type Places, deduplicationId, groupId } from './names.ts'

/** One message in the terms of SQS and SNS. */
export interface Entry {
  /** Which of the call's messages it is. */
  readonly index: number
  /** The queue or topic that it goes to. */
  readonly place: string
  readonly body: string
  readonly attributes: Readonly<Record<string, { DataType: 'String'; StringValue: string }>>
  /** Message group and deduplication id, for FIFO queues and topics. */
  readonly fifo: Readonly<{ MessageGroupId: string; MessageDeduplicationId: string }> | undefined
  /** What AWS counts: the body, and name, type and value of each attribute. */
  readonly bytes: number
}

export interface EntryRules {
  readonly places: Places
  readonly encoder: Encoder
  readonly maxMessageBytes: number
}

/** @throws EVENT_UNDELIVERABLE when AWS could not carry it */
export function toEntry(
  message: Message,
  index: number,
  { places, encoder, maxMessageBytes }: EntryRules,
): Entry {
  const { body, headers } = encoder.encode(message)
  const place = places.placeOf(message.topic)
  if (!isXmlText(body)) {
    throw undeliverable('the payload holds a character that AWS does not carry, such as U+FFFE or U+FFFF')
  }
  let bytes = Buffer.byteLength(body)
  const attributes: Record<string, { DataType: 'String'; StringValue: string }> = {}
  for (const [name, value] of headers) {
    attributes[name] = { DataType: 'String', StringValue: value }
    bytes += Buffer.byteLength(name) + 'String'.length + Buffer.byteLength(value)
  }
  if (bytes > maxMessageBytes) {
    throw undeliverable(
      `body and headers have ${bytes} bytes, more than the ${maxMessageBytes} of maxMessageBytes`,
    )
  }
  const fifo = places.fifo
    ? { MessageGroupId: groupId(message), MessageDeduplicationId: deduplicationId(message) }
    : undefined
  return { index, place, body, attributes, fifo, bytes }
}

const mostEntries = 10

/** Requests of at most ten entries and `maxBytes` together, each for one queue or topic. */
export function toBatches(entries: readonly Entry[], maxBytes: number): Entry[][] {
  const batches: Entry[][] = []
  const open = new Map<string, { batch: Entry[]; bytes: number }>()
  for (const entry of entries) {
    let current = open.get(entry.place)
    if (
      current === undefined ||
      current.batch.length === mostEntries ||
      current.bytes + entry.bytes > maxBytes
    ) {
      current = { batch: [], bytes: 0 }
      open.set(entry.place, current)
      batches.push(current.batch)
    }
    current.batch.push(entry)
    current.bytes += entry.bytes
  }
  return batches
}
