import { afterAll, describe, it, vi } from 'vitest'
import { rabbitmqPublisher, rabbitmqSource } from '../../src/brokers/rabbitmq.ts'
import type { SourceBench } from '../../src/testing/source-bench.ts'
import { testSource } from '../../src/testing/source-contract.ts'
import { connectAmqp } from '../support/amqp-consumer.ts'
import { createProxy } from '../support/proxy.ts'
import { startRabbitmq } from '../support/rabbitmq.ts'
import { describeWith } from '../support/services.ts'
import { sendAll } from './source-bench.ts'

vi.setConfig({ testTimeout: 60_000 })

const runner = { describe, it, afterAll }
const features = { holding: true, headers: true, cut: true, restart: true } as const

describeWith('rabbitmq', 'with RabbitMQ', () => {
  async function rabbitBench(
    readers: 'exclusive' | 'single-active' | 'shared',
    args: Record<string, unknown>,
  ): Promise<SourceBench> {
    const server = await startRabbitmq()
    const proxy = await createProxy(server.port)
    const queue = `contract-${readers}`
    const admin = await connectAmqp(server.url)
    await admin.queueDeclare({ queue, durable: true, arguments: args })
    admin.unsafeDestroy()
    const publisher = await rabbitmqPublisher({ url: server.url })
    return {
      create: () =>
        rabbitmqSource({ url: server.url.replace(`:${server.port}`, `:${proxy.port}`), queue, readers }),
      send: (messages) =>
        sendAll(
          publisher,
          messages.map((message) => ({ ...message, topic: queue })),
        ),
      cut: async () => proxy.reset(),
      stop: () => server.kill('SIGTERM').then(() => proxy.down()),
      start: () => server.restart().then(() => proxy.up()),
      async tearDown() {
        await publisher.close()
        await proxy.close()
        await server.stop()
      },
    }
  }

  testSource(
    {
      name: 'rabbitmq (classic queue, exclusive)',
      features: { ...features, ordering: 'aggregate' },
      setUp: () => rabbitBench('exclusive', {}),
    },
    runner,
  )
  testSource(
    {
      name: 'rabbitmq (quorum queue, single active consumer)',
      features: { ...features, ordering: 'aggregate' },
      setUp: () =>
        rabbitBench('single-active', { 'x-queue-type': 'quorum', 'x-single-active-consumer': true }),
    },
    runner,
  )
  testSource(
    {
      name: 'rabbitmq (shared)',
      features: { ...features, ordering: 'none' },
      setUp: () => rabbitBench('shared', {}),
    },
    runner,
  )
})
