import type { Outgoing } from './groups.ts'

/** Where the batch of one partition begins, as the broker says it. */
export interface Placed {
  readonly topicName: string
  readonly partition: number
  readonly baseOffset?: string | null | undefined
}

/**
 * Counts the offsets of each partition up from the beginning of its batch. Answers the messages for whose partition
 * there is no word.
 */
export function giveReceipts(group: readonly Outgoing[], placed: readonly Placed[]): Outgoing[] {
  const offsets = new Map<string, bigint | null>()
  for (const { topicName, partition, baseOffset } of placed) {
    offsets.set(`${topicName}/${partition}`, baseOffset == null ? null : BigInt(baseOffset))
  }
  const missing: Outgoing[] = []
  for (const message of group) {
    const { topic, record } = message
    const where = record.partition === undefined ? topic : `${topic}/${record.partition}`
    const offset = record.partition === undefined ? null : offsets.get(where)
    if (offset === undefined) {
      missing.push(message)
      continue
    }
    // A producer that is not ours tells the partitions of all, and not of each.
    const receipt = offset === null ? `kafka:${where}` : `kafka:${where}@${offset}`
    message.result = { status: 'published', receipt }
    if (offset !== null) offsets.set(where, offset + 1n)
  }
  return missing
}
