import { afterAll, describe, it } from 'vitest'
import { natsPublisher, natsSource } from '../../src/brokers/nats.ts'
import { testSource } from '../../src/testing/source-contract.ts'
import { createStream } from '../support/nats-stream.ts'
import { startNats } from '../support/nats.ts'
import { createProxy } from '../support/proxy.ts'
import { describeWith } from '../support/services.ts'

const runner = { describe, it, afterAll }

describeWith('nats-server', 'NATS', () => {
  for (const readers of ['exclusive', 'shared'] as const) {
    testSource(
      {
        name: `nats, ${readers}`,
        features: {
          ordering: readers === 'exclusive' ? 'aggregate' : 'none',
          holding: true,
          headers: true,
          cut: true,
          restart: true,
        },
        async setUp() {
          const server = await startNats()
          const proxy = await createProxy(server.port)
          const stream = await createStream(server.url, 'OUTBOX', ['outbox.>'])
          await stream.close()
          const publisher = await natsPublisher({ url: server.url })
          const url = `nats://127.0.0.1:${proxy.port}`
          return {
            create: () =>
              natsSource({ url, stream: 'OUTBOX', consumer: 'contract', readers, ackWaitMs: 3000 }),
            async send(messages) {
              // In order, also within an aggregate: JetStream keeps that of one connection.
              const results = await publisher.publish(messages, { signal: AbortSignal.timeout(10_000) })
              if (results.some(({ status }) => status !== 'published')) throw new Error('not published')
            },
            cut: async () => proxy.reset(),
            stop: () => server.kill('SIGTERM'),
            start: () => server.restart(),
            async tearDown() {
              await publisher.close()
              await proxy.close()
              await server.stop()
            },
          }
        },
      },
      runner,
    )
  }
})
