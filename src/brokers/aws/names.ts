import { createHash } from 'node:crypto'
import { showName } from '../../publishing/headers.ts'
import { type Message, undeliverable } from '../../publishing/publisher.ts'

/** What the pattern of a configuration makes of a topic: the name of a queue, its URL, or the ARN of a topic. */
export interface Places {
  /** FIFO queues and topics end in `.fifo`, and no others do. */
  readonly fifo: boolean
  /** @throws EVENT_UNDELIVERABLE for a topic that makes no such name */
  placeOf(topic: string): string
}

export interface PlaceRules {
  /** For messages: `queue`, `topic`. */
  readonly kind: string
  /** Characters of a name, with its suffix. */
  readonly maxLength: number
}

const placeholder = '{topic}'
const suffix = '.fifo'

/** A name with the placeholder at most once; the suffix comes last. */
export const namePattern = /^(?:[\w-]+|[\w-]*\{topic\}[\w-]*)(?:\.fifo)?$/

const allowed = /^[\w-]+(?:\.fifo)?$/

/**
 * Names by a pattern in which `{topic}` stands for the topic of an event. Dots become hyphens there, for AWS has no
 * dots in names; a topic may end in `.fifo` where the names do.
 */
export function createPlaces(pattern: string, { kind, maxLength }: PlaceRules): Places {
  const fifo = pattern.endsWith(suffix)
  const [before = '', after] = pattern.split(placeholder)
  if (after === undefined) return { fifo, placeOf: () => pattern }
  const nameStart = Math.max(before.lastIndexOf('/'), before.lastIndexOf(':')) + 1

  return {
    fifo,
    placeOf(topic) {
      const bare = fifo && topic.endsWith(suffix) ? topic.slice(0, -suffix.length) : topic
      const place = before + bare.replaceAll('.', '-') + after
      const name = place.slice(nameStart)
      if (!allowed.test(name) || name.length > maxLength) {
        throw undeliverable(
          `the topic ${showName(topic)} makes no name of a ${kind}, which has at most ${maxLength} letters, digits, ` +
            'hyphens and underscores: give the event another topic by a route',
        )
      }
      return place
    },
  }
}

/** The name of a queue or topic, without the rest of its URL or ARN. */
export function nameOf(place: string): string {
  return place.slice(Math.max(place.lastIndexOf('/'), place.lastIndexOf(':')) + 1)
}

const longest = 128

/**
 * The message group of an aggregate: `<type>/<id>`, both percent-encoded; a longer text is replaced by `#` and its
 * SHA-256. Different pairs have different groups: what is encoded holds neither `/` nor `#`.
 */
export function groupId({ aggregateType, aggregateId }: Message): string {
  const pair = [aggregateType, aggregateId]
  // Not well-formed text cannot be encoded; PostgreSQL has none.
  const encoded = pair.every((part) => part.isWellFormed()) ? pair.map(encodeURIComponent).join('/') : ''
  return encoded !== '' && encoded.length <= longest ? encoded : digest(JSON.stringify(pair))
}

// Printable ASCII without the space: letters, digits and punctuation. `#` is kept for what is replaced.
const safe = /^[!"$-~][!-~]*$/

/** `messageId` as it is where AWS can carry it, otherwise `#` and its SHA-256. */
export function deduplicationId({ messageId }: Message): string {
  return messageId.length <= longest && safe.test(messageId) ? messageId : digest(messageId)
}

function digest(text: string): string {
  return `#${createHash('sha256').update(text).digest('hex')}`
}
