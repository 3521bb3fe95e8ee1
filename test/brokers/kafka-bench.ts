import { type KafkaOptions, kafkaPublisher } from '../../src/brokers/kafka.ts'
import type { Message, Publisher, PublishResult } from '../../src/publishing/publisher.ts'
import { testMessage } from '../../src/testing/test-message.ts'
import { createTopics } from '../support/kafka-consumer.ts'
import { closeLater } from './publishing.ts'

/** A publisher to this broker, closed after the test. */
export async function kafka(url: string, options: Partial<KafkaOptions> = {}): Promise<Publisher> {
  return closeLater(await kafkaPublisher({ brokers: [url], ...options }))
}

let topics = 0

/** A new topic, with one partition unless told otherwise. */
export async function newTopic(
  url: string,
  options: Parameters<typeof createTopics>[1][string] = {},
): Promise<string> {
  const topic = `waybill.test.${process.pid}.${Date.now()}.${++topics}`
  await createTopics(url, { [topic]: options })
  return topic
}

export const publish = (publisher: Publisher, messages: readonly Message[], ms = 20_000) =>
  publisher.publish(messages, { signal: AbortSignal.timeout(ms) })

export async function publishOne(
  publisher: Publisher,
  message: Message,
  ms?: number,
): Promise<PublishResult> {
  const [result] = await publish(publisher, [message], ms)
  return result!
}

/** So many messages for one topic, each of an aggregate of its own unless told otherwise. */
export function messagesTo(topic: string, count: number, overrides: Partial<Message> = {}): Message[] {
  return Array.from({ length: count }, () => testMessage({ topic, ...overrides }))
}

export function statuses(results: readonly PublishResult[]): string[] {
  return results.map(({ status }) => status)
}
