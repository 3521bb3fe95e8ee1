import { createHash } from 'node:crypto'
import type { ReceivedEvent } from './received-event.ts'

/** Everything that the source has of one aggregate, on its way to the consumer that rebuilds a projection of it. */
export interface RebuildMessage {
  readonly projection: string
  readonly eventType: string
  readonly aggregateType: string
  readonly aggregateId: string
  /** In rising order, at least one. */
  readonly revisions: readonly RebuildRevision[]
}

export interface RebuildRevision {
  /** Decimal text. */
  readonly revision: string
  /** PostgreSQL's own text of the payload. */
  readonly body: string
}

/** Under this id the message is kept: asked for twice at once it waits once. */
export function rebuildId({ projection, aggregateType, aggregateId, revisions }: RebuildMessage): string {
  const newest = revisions.at(-1)!.revision
  return `rebuild:${hash(projection, aggregateType, aggregateId, newest).toString('hex').slice(0, 32)}`
}

export function encodeRebuild(message: RebuildMessage): string {
  return JSON.stringify(message)
}

/**
 * The events of a message, as the publication would have sent them. Each has an id of its own, the same in each rebuild
 * of the projection.
 */
export function decodeRebuild(body: string): { projection: string; events: readonly ReceivedEvent[] } {
  const message = JSON.parse(body) as RebuildMessage
  const { projection, eventType, aggregateType, aggregateId } = message
  const events = message.revisions.map((one): ReceivedEvent => ({
    id: uuidOf(hash(projection, aggregateType, aggregateId, one.revision)),
    ...{
      type: eventType,
      aggregateType,
      aggregateId,
      body: one.body,
      payload: JSON.parse(one.body) as unknown,
    },
    ...{ revision: BigInt(one.revision), operationId: null, createdAt: null, headers: {}, replay: null },
    origin: `rebuild:${projection}`,
  }))
  return { projection, events }
}

function hash(...parts: readonly string[]): Buffer {
  return createHash('sha256').update(JSON.stringify(parts)).digest()
}

/** A UUID of version 8: the handler may keep it in a column of that type. */
function uuidOf(bytes: Buffer): string {
  bytes[6] = (bytes[6]! & 0x0f) | 0x80
  bytes[8] = (bytes[8]! & 0x3f) | 0x80
  return bytes.toString('hex', 0, 16).replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5')
}
