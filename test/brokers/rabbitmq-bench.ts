import { afterEach, expect } from 'vitest'
import { type RabbitmqOptions, rabbitmqPublisher } from '../../src/brokers/rabbitmq.ts'
import type { Message, Publisher, PublishResult } from '../../src/publishing/publisher.ts'
import { testMessage } from '../../src/testing/test-message.ts'
import { type AmqpConsumer, consumeQueue } from '../support/amqp-consumer.ts'
import { type RabbitmqServer, startRabbitmq } from '../support/rabbitmq.ts'

/** What the queue of the consumer is bound to, for every routing key. */
export const exchange = 'waybill'
/** The broker of this test file, once {@link startBench} is done. */
export let server: RabbitmqServer
let consumer: AmqpConsumer

/** Starts the broker of this test file, and what consumes from it: for `beforeAll`. */
export async function startBench(): Promise<void> {
  server = await startRabbitmq()
  consumer = await consumeQueue(server.url, 'waybill.all', exchange)
}

/** Consumes again after a restart of the broker. */
export async function consumeAgain(): Promise<void> {
  consumer = await consumeQueue(server.url, 'waybill.all', exchange, consumer.messages)
}

/** The message as it arrived, waited for. */
export async function received(message: Message) {
  for (let count = 1; ; count++) {
    const found = consumer.messages.find(({ messageId }) => messageId === message.messageId)
    if (found !== undefined) return found
    await consumer.waitFor(Math.max(count, consumer.messages.length + 1))
  }
}

const publishers: Publisher[] = []
afterEach(async () => {
  await Promise.all(publishers.splice(0).map((publisher) => publisher.close()))
})

/** Closes the publisher after the test. */
export function closeLater(publisher: Publisher): Publisher {
  publishers.push(publisher)
  return publisher
}

/** A publisher to the exchange of the bench, closed after the test. */
export async function rabbitmq(options: RabbitmqOptions & { name?: string }): Promise<Publisher> {
  return closeLater(await rabbitmqPublisher({ exchange, ...options }))
}

export const publish = (publisher: Publisher, messages: readonly Message[], ms = 10_000) =>
  publisher.publish(messages, { signal: AbortSignal.timeout(ms) })

export async function publishOne(
  publisher: Publisher,
  message = testMessage(),
  ms?: number,
): Promise<PublishResult> {
  const [result] = await publish(publisher, [message], ms)
  return result!
}

/** What a promise was rejected with. */
export const failure = (promise: Promise<unknown>): Promise<Error> =>
  promise.then(
    () => expect.unreachable('expected a rejection'),
    (error: Error) => error,
  )
