import type { Message, PublishResult } from '../../publishing/publisher.ts'
import type { KafkaFailure } from './outcomes.ts'
import type { Prepared } from './record.ts'

/** A message of one call, and what becomes of it. */
export interface Outgoing extends Prepared {
  readonly message: Message
  result?: PublishResult
}

/** Says which messages go together, and remembers what did not go well. */
export interface Grouping {
  /** In order, as many at once as their topics take. */
  groupsOf(messages: readonly Outgoing[]): Outgoing[][]
  worked(group: readonly Outgoing[]): void
  failed(group: readonly Outgoing[], failure: KafkaFailure): void
}

// Topics are few; somebody may invent them all the same.
const topicsRemembered = 1000

export function createGrouping({ maxMessageBytes }: { maxMessageBytes: number }): Grouping {
  /** Topics that failed the last time: each goes by itself, after the others, and does not fail them again. */
  const troubled = new Set<string>()
  /** Topics that took less at once than `maxMessageBytes`, and how much that was. */
  const limits = new Map<string, number>()

  function cut(messages: readonly Outgoing[], groups: Outgoing[][]): void {
    let bytes = Infinity
    for (const message of messages) {
      bytes += message.bytes
      if (bytes > (limits.get(message.topic) ?? maxMessageBytes)) {
        groups.push([])
        bytes = message.bytes
      }
      groups.at(-1)!.push(message)
    }
  }

  return {
    groupsOf(messages) {
      const groups: Outgoing[][] = []
      if (troubled.size === 0) cut(messages, groups)
      else {
        cut(
          messages.filter(({ topic }) => !troubled.has(topic)),
          groups,
        )
        const others = messages.filter(({ topic }) => troubled.has(topic))
        for (const ofTopic of byKey(others, topicOf)) cut(ofTopic, groups)
      }
      return groups
    },
    worked(group) {
      if (troubled.size > 0) for (const { topic } of group) troubled.delete(topic)
    },
    failed(group, failure) {
      const { topic } = group[0]!
      if (group.length === 1 ? failure === 'size' : group.some((other) => other.topic !== topic)) return
      if (failure === 'topic' || failure === 'partition') {
        if (troubled.size >= topicsRemembered) troubled.clear()
        troubled.add(topic)
      } else if (failure === 'size') {
        if (limits.size >= topicsRemembered) limits.clear()
        limits.set(topic, Math.floor(group.reduce((sum, { bytes }) => sum + bytes, 0) / 2))
      }
    },
  }
}

/** Smaller groups of which at least one is without the fault; one group when that is not to be had. */
export function split(group: readonly Outgoing[], failure: KafkaFailure): (readonly Outgoing[])[] {
  const topics = byKey(group, topicOf)
  if (topics.length > 1 || failure === 'topic') return topics
  const partitions = byKey(group, ({ record }) => String(record.partition))
  if (partitions.length > 1 || failure === 'partition' || group.length === 1) return partitions
  const middle = Math.ceil(group.length / 2)
  return [group.slice(0, middle), group.slice(middle)]
}

/** Groups with one key, in the order in which their keys first came. */
export function byKey<T>(messages: readonly T[], keyOf: (message: T) => string): T[][] {
  const groups = new Map<string, T[]>()
  for (const message of messages) {
    const group = groups.get(keyOf(message))
    if (group === undefined) groups.set(keyOf(message), [message])
    else group.push(message)
  }
  return [...groups.values()]
}

const topicOf = ({ topic }: Outgoing) => topic
