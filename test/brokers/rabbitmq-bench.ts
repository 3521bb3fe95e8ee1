import { type RabbitmqOptions, rabbitmqPublisher } from '../../src/brokers/rabbitmq.ts'
import type { Message, Publisher } from '../../src/publishing/publisher.ts'
import { type AmqpConsumer, consumeQueue } from '../support/amqp-consumer.ts'
import { type RabbitmqServer, startRabbitmq } from '../support/rabbitmq.ts'
import { closeLater } from './publishing.ts'

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

/** A publisher to the exchange of the bench, closed after the test. */
export async function rabbitmq(options: RabbitmqOptions & { name?: string }): Promise<Publisher> {
  return closeLater(await rabbitmqPublisher({ exchange, ...options }))
}
