import { afterAll, describe, it, vi } from 'vitest'
import { snsPublisher } from '../../src/brokers/sns.ts'
import { sqsPublisher, sqsSource } from '../../src/brokers/sqs.ts'
import type { SourceBench } from '../../src/testing/source-bench.ts'
import { testSource } from '../../src/testing/source-contract.ts'
import { awsRegion, startAws } from '../support/aws.ts'
import { createProxy } from '../support/proxy.ts'
import { describeWith } from '../support/services.ts'
import { sendAll } from './source-bench.ts'

vi.setConfig({ testTimeout: 60_000 })

const runner = { describe, it, afterAll }
const features = { holding: true, headers: true, cut: true, restart: true } as const

describeWith('sqs', 'with SQS', () => {
  async function sqsBench(queue: string, topic?: { name: string }): Promise<SourceBench> {
    const server = await startAws()
    const proxy = await createProxy(server.port)
    const endpoint = `http://127.0.0.1:${proxy.port}`
    await server.createQueue(queue)
    const publisher =
      topic === undefined
        ? await sqsPublisher({ endpoint: server.url, region: awsRegion, queue })
        : await snsPublisher({
            endpoint: server.url,
            topicArn: await server.createTopic(topic.name, [queue], { raw: false }),
          })
    return {
      // A long wait of the emulator that was cut takes what comes next with it, as those of AWS may.
      create: () => sqsSource({ endpoint, region: awsRegion, queue, visibilitySeconds: 3, waitSeconds: 1 }),
      send: (messages) => sendAll(publisher, messages),
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
      name: 'sqs (FIFO)',
      features: { ...features, ordering: 'aggregate' },
      setUp: () => sqsBench('contract.fifo'),
    },
    runner,
  )
  testSource(
    {
      name: 'sqs (standard)',
      features: { ...features, ordering: 'none' },
      setUp: () => sqsBench('contract'),
    },
    runner,
  )
  testSource(
    {
      name: 'sqs behind sns, without raw delivery',
      features: { ...features, ordering: 'aggregate' },
      setUp: () => sqsBench('contract.fifo', { name: 'contract.fifo' }),
    },
    runner,
  )
})
