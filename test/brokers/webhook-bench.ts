import { afterEach, expect } from 'vitest'
import { type WebhookOptions, webhookPublisher } from '../../src/brokers/webhook.ts'
import type { Message, Publisher, PublishResult } from '../../src/publishing/publisher.ts'
import { testMessage } from '../../src/testing/test-message.ts'

const publishers: Publisher[] = []
afterEach(async () => {
  await Promise.all(publishers.splice(0).map((publisher) => publisher.close()))
})

/** Closed after the test. */
export function webhook(options: WebhookOptions & { name?: string }): Publisher {
  const publisher = webhookPublisher(options)
  publishers.push(publisher)
  return publisher
}

export const publish = (publisher: Publisher, ...messages: Message[]) =>
  publisher.publish(messages, { signal: AbortSignal.timeout(10_000) })

export async function publishOne(publisher: Publisher, message = testMessage()): Promise<PublishResult> {
  const [result] = await publish(publisher, message)
  return result!
}

/** What a promise was rejected with. */
export const failure = (promise: Promise<unknown>): Promise<Error> =>
  promise.then(
    () => expect.unreachable('expected a rejection'),
    (error: Error) => error,
  )
