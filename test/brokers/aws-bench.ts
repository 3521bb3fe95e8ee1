import { expect } from 'vitest'
import { type SnsOptions, snsPublisher } from '../../src/brokers/sns.ts'
import { type SqsOptions, sqsPublisher } from '../../src/brokers/sqs.ts'
import type { Message, Publisher, PublishResult } from '../../src/publishing/publisher.ts'
import { testMessage } from '../../src/testing/test-message.ts'
import { awsRegion } from '../support/aws.ts'
import type { SqsConsumer, SqsMessage } from '../support/sqs-consumer.ts'
import { closeLater } from './publishing.ts'

/** A publisher to SQS, closed after the test. */
export async function sqs(options: SqsOptions): Promise<Publisher> {
  return closeLater(await sqsPublisher({ region: awsRegion, ...options }))
}

/** A publisher to SNS, closed after the test. */
export async function sns(options: SnsOptions): Promise<Publisher> {
  return closeLater(await snsPublisher(options))
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
