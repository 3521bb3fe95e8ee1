import { setTimeout as delay } from 'node:timers/promises'
import { beforeAll, expect, test } from 'vitest'
import { rabbitmqPublisher } from '../../src/brokers/rabbitmq.ts'
import { connectAmqp, consumeQueue } from '../support/amqp-consumer.ts'
import { type RabbitmqServer, startRabbitmq } from '../support/rabbitmq.ts'
import { describeWith } from '../support/services.ts'
import { type Flow, type FlowBroker, startFlow as startBrokerFlow } from './fixtures/broker-flow.ts'
import { createRandom, repeat } from './fixtures/random.ts'

let server: RabbitmqServer

let flows = 0

async function startFlow(options?: { maxAttempts: number }): Promise<Flow> {
  const exchange = `faults-${++flows}`
  const connection = await connectAmqp(server.url)
  const channel = await connection.acquire()
  await channel.exchangeDeclare({ exchange, type: 'topic', durable: true })
  await channel.queueDeclare({ queue: exchange, durable: true })
  await channel.queueBind({ queue: exchange, exchange, routingKey: '#' })
  connection.unsafeDestroy()
  const broker: FlowBroker = {
    name: 'rabbit',
    port: server.port,
    publisher: (port) =>
      rabbitmqPublisher({
        url: `amqp://guest:guest@127.0.0.1:${port}`,
        exchange,
        connectTimeoutMs: 2_000,
        name: 'rabbit',
      }),
    async drain(take, missing) {
      const consumer = await consumeQueue(server.url, exchange)
      for (let seen = 0; await missing();) {
        await consumer.waitFor(seen + 1)
        for (; seen < consumer.messages.length; seen++) {
          const { headers, body } = consumer.messages[seen]!
          take({ eventId: String(headers!['id']), body })
        }
      }
      await consumer.close()
    },
  }
  return startBrokerFlow(broker, options)
}

describeWith('rabbitmq', 'RabbitMQ while events flow', () => {
  beforeAll(async () => {
    server = await startRabbitmq()
  })

  test('is away for a while: told once, no attempt counted, nothing lost, order kept', async () => {
    const { proxy, relay, untilPublished, finish } = await startFlow()
    await proxy.down()
    const { error } = await relay.until('destination.down')
    await delay(2_000)
    await proxy.up()
    await relay.until('destination.up')
    await untilPublished(100)
    await finish()
    expect(error).toMatch(/rabbit|connect/i)
    expect(relay.events('destination.down')).toHaveLength(1)
  })

  test(
    'loses its connections again and again: nothing lost, order kept',
    { timeout: 60_000 * repeat },
    async () => {
      const random = createRandom()
      const { proxy, relay, untilPublished, finish } = await startFlow({ maxAttempts: 8 })
      let resets = 0
      for (let round = 0; round < 10 * repeat; round++) {
        await delay(random.between(10, 250))
        if (proxy.connections > 0) resets++
        proxy.reset()
        await untilPublished(random.between(1, 20))
      }
      // One that was under way at two resets, while others got through between them, may be counted.
      const { written, duplicates } = await finish(7)
      expect(resets).toBeGreaterThanOrEqual(5 * repeat)
      process.stdout.write(
        `${resets} connections reset, ${written} events, ${duplicates} twice, ` +
          `${relay.events('destination.down').length} times taken for away\n`,
      )
    },
  )

  test('falls silent: no attempt counted, and it goes on when it answers again', async () => {
    const { proxy, relay, untilPublished, finish } = await startFlow()
    proxy.blackhole()
    await relay.until('destination.down')
    await delay(2_000)
    const before = relay.events('batch.finished').filter(({ published }) => published > 0).length
    await delay(500)
    expect(relay.events('batch.finished').filter(({ published }) => published > 0)).toHaveLength(before)
    proxy.blackhole(false)
    await relay.until('destination.up')
    await untilPublished(100)
    await finish()
  })

  test('has an alarm about its memory: no attempt counted, and it goes on when that is over', async () => {
    const { relay, untilPublished, finish } = await startFlow()
    await server.control('set_vm_memory_high_watermark', 'absolute', '1MB')
    try {
      expect((await relay.until('destination.down')).error).toContain('takes no messages now')
      await delay(2_000)
    } finally {
      await server.control('set_vm_memory_high_watermark', 'absolute', '1GB')
    }
    await relay.until('destination.up')
    await untilPublished(100)
    await finish()
  })

  test.for(['SIGTERM', 'SIGKILL'] as const)(
    'is ended by %s and started again: nothing lost, order kept',
    { timeout: 60_000 },
    async (signal) => {
      const { relay, untilPublished, finish } = await startFlow()
      await server.kill(signal)
      try {
        const { error } = await relay.until('destination.down')
        expect(error).toMatch(/rabbit|connect/i)
      } finally {
        await server.restart()
      }
      await relay.until('destination.up')
      await untilPublished(100)
      await finish()
    },
  )
})
