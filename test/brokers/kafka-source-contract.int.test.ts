import { afterAll, describe, it, vi } from 'vitest'
import { kafkaPublisher, kafkaSource } from '../../src/brokers/kafka.ts'
import { testSource } from '../../src/testing/source-contract.ts'
import { startKafka } from '../support/kafka.ts'
import { createTopics } from '../support/kafka-consumer.ts'
import { describeWith } from '../support/services.ts'

// A broker takes seconds to stop and to start, and a group to notice that a member is gone.
vi.setConfig({ testTimeout: 120_000 })

const topic = 'outbox.event.contract'

describeWith('kafka-server', 'with Kafka', () => {
  testSource(
    {
      name: 'kafka',
      features: { ordering: 'aggregate', holding: true, headers: true, cut: true, restart: true },
      async setUp() {
        const server = await startKafka()
        await createTopics(server.url, { [topic]: { partitions: 3 } })
        const publisher = await kafkaPublisher({ brokers: [server.url] })
        return {
          create: () => kafkaSource({ brokers: [server.proxiedUrl], group: 'contract', topics: [topic] }),
          async send(messages) {
            const results = await publisher.publish(messages, { signal: AbortSignal.timeout(30_000) })
            for (const result of results) if (result.status !== 'published') throw result.error
          },
          cut: async () => server.proxy.reset(),
          async stop() {
            await server.kill('SIGTERM')
            await server.proxy.down()
          },
          async start() {
            await server.restart()
            await server.proxy.up()
          },
          patienceMs: 60_000,
          async tearDown() {
            await publisher.close()
            await server.stop()
          },
        }
      },
    },
    { describe, it, afterAll },
  )
})
