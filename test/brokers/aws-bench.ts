import { afterEach, expect } from 'vitest'
import { type SnsOptions, snsPublisher } from '../../src/brokers/sns.ts'
import { type SqsOptions, sqsPublisher } from '../../src/brokers/sqs.ts'
import type { Message, Publisher, PublishResult } from '../../src/publishing/publisher.ts'
import { testMessage } from '../../src/testing/test-message.ts'
import { awsRegion } from '../support/aws.ts'
import type { SqsConsumer, SqsMessage } from '../support/sqs-consumer.ts'

const publishers: Publisher[] = []
afterEach(async () => {
  await Promise.all(publishers.splice(0).map((publisher) => publisher.close()))
})

/** A publisher to SQS, closed after the test. */
export async function sqs(options: SqsOptions): Promise<Publisher> {
  const publisher = await sqsPublisher({ region: awsRegion, ...options })
  publishers.push(publisher)
  return publisher
}

/** A publisher to SNS, closed after the test. */
export async function sns(options: SnsOptions): Promise<Publisher> {
  const publisher = await snsPublisher(options)
  publishers.push(publisher)
  return publisher
}

export const publish = (publisher: Publisher, messages: readonly Message[], ms = 10_000) =>
  publisher.publish(messages, { signal: AbortSignal.timeout(ms) })

export async function publishOne(publisher: Publisher, message = testMessage(), ms?: number) {
  const [result] = await publish(publisher, [message], ms)
  return result!
}

export const published: PublishResult = {
  status: 'published',
  receipt: expect.any(String) as unknown as string,
}

/** Messages to one queue, which exists in each test by this name. */
export const messagesTo = (topic: string, count: number): Message[] =>
  Array.from({ length: count }, () => testMessage({ topic }))

/** The message as it arrived, waited for. */
export async function received(consumer: SqsConsumer, { eventId, messageId }: Message): Promise<SqsMessage> {
  for (;;) {
    const found = consumer.messages.find(({ attributes, deduplicationId }) =>
      deduplicationId === undefined ? attributes['id'] === eventId : deduplicationId === messageId,
    )
    if (found !== undefined) return found
    await consumer.waitFor(consumer.messages.length + 1)
  }
}
