import { Kafka, Partitioners, logLevel } from 'kafkajs'
import { afterAll, describe, it, vi } from 'vitest'
import { kafkaProducerPublisher, kafkaPublisher } from '../../src/brokers/kafka.ts'
import type { PublisherBench, ReceivedMessage } from '../../src/testing/publisher-bench.ts'
import { testPublisher } from '../../src/testing/publisher-contract.ts'
import { startKafka } from '../support/kafka.ts'
import { type KafkaMessage, consumeTopic, createTopics } from '../support/kafka-consumer.ts'
import { describeWith } from '../support/services.ts'

// A broker takes seconds to stop and to start, on a busy machine many.
vi.setConfig({ testTimeout: 90_000 })

const topic = 'outbox.event.contract'

const settings = { 'max.message.bytes': '1100000' }
const runner = { describe, it, afterAll }

function toReceived({ headers, body }: KafkaMessage): ReceivedMessage {
  const { id = '', replay, ...others } = Object.fromEntries(headers)
  const messageId = replay === undefined ? id : `${id}.r${replay}`
  return { messageId, eventId: id, headers: others, body }
}

describeWith('kafka-server', 'with Kafka', () => {
  testPublisher(
    {
      name: 'kafka',
      features: {
        ordering: 'batch',
        headers: true,
        oversize: true,
        // Kafka carries any header, as long as the message is not too large with it.
        unencodableHeaders: { big: 'x'.repeat(1_100_000) },
        cut: true,
        restart: true,
        misaddressed: true,
      },
      async setUp(): Promise<PublisherBench> {
        const [server, empty] = [await startKafka(), await startKafka()]
        await createTopics(server.url, { [topic]: { partitions: 3, settings } })
        const consumer = consumeTopic(server.url, topic)
        return {
          create: () => kafkaPublisher({ brokers: [server.proxiedUrl], maxMessageBytes: 1_100_000 }),
          received: () => consumer.messages.map(toReceived),
          cut: async () => server.proxy.reset(),
          async stop() {
            await server.kill('SIGTERM')
            await server.proxy.down()
          },
          async start() {
            await server.restart()
            await server.proxy.up()
          },
          misaddressed: () => kafkaPublisher({ brokers: [empty.url] }),
          async tearDown() {
            await consumer.close()
            await Promise.all([server.stop(), empty.stop()])
          },
        }
      },
    },
    runner,
  )

  testPublisher(
    {
      name: 'a producer of one’s own',
      features: {
        ordering: 'per-call',
        headers: true,
        oversize: true,
        unencodableHeaders: { big: 'x'.repeat(1_100_000) },
        cut: false,
        restart: false,
        misaddressed: false,
      },
      async setUp(): Promise<PublisherBench> {
        const server = await startKafka()
        await createTopics(server.url, { [topic]: { partitions: 3, settings } })
        const consumer = consumeTopic(server.url, topic)
        const producer = new Kafka({ brokers: [server.url], logLevel: logLevel.NOTHING }).producer({
          createPartitioner: Partitioners.DefaultPartitioner,
        })
        await producer.connect()
        return {
          create: () => kafkaProducerPublisher(producer, { maxMessageBytes: 1_100_000 }),
          received: () => consumer.messages.map(toReceived),
          async tearDown() {
            await producer.disconnect()
            await consumer.close()
            await server.stop()
          },
        }
      },
    },
    runner,
  )
})
