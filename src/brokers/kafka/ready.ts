import type { Abortion } from '../abort.ts'
import type { Sent } from './delivery.ts'
import type { Outgoing } from './groups.ts'
import { failureOf } from './outcomes.ts'
import type { Placed } from './receipts.ts'

/** What is needed of a producer of KafkaJS, of Confluent's client, or of another one with this shape. */
export interface KafkaProducer {
  sendBatch(batch: {
    topicMessages: {
      topic: string
      messages: { key: string; value: string; headers: Record<string, string> }[]
    }[]
  }): Promise<readonly Placed[]>
  /** KafkaJS has it. */
  isIdempotent?(): boolean
}

/** Sends through a producer that somebody else made. What is given up cannot be called back, and may still arrive. */
export async function sendWith(
  producer: KafkaProducer,
  group: readonly Outgoing[],
  call: Abortion,
): Promise<Sent> {
  if (call.aborted) return 'aborted'
  try {
    const placed = await Promise.race([producer.sendBatch({ topicMessages: topicsOf(group) }), call.promise])
    return placed === undefined ? 'aborted' : { placed }
  } catch (error) {
    const failure = failureOf(error)
    if (failure === undefined) throw error
    return { failure, error }
  }
}

/** Copies: Confluent's client puts its own forms of headers and value into what it is given. */
function topicsOf(group: readonly Outgoing[]) {
  const topics = new Map<string, { key: string; value: string; headers: Record<string, string> }[]>()
  for (const { topic, record } of group) {
    const { key, value, headers } = record
    const messages = topics.get(topic)
    if (messages === undefined) topics.set(topic, [{ key, value, headers }])
    else messages.push({ key, value, headers })
  }
  return Array.from(topics, ([topic, messages]) => ({ topic, messages }))
}
