import { setTimeout as delay } from 'node:timers/promises'
import { beforeAll, expect, test } from 'vitest'
import { natsPublisher } from '../../src/brokers/nats.ts'
import { redisStreamsPublisher } from '../../src/brokers/redis-streams.ts'
import type { LocalServer } from '../support/local-server.ts'
import { createStream } from '../support/nats-stream.ts'
import { startNats } from '../support/nats.ts'
import { connectRedis, readStream } from '../support/redis-stream.ts'
import { startRedis } from '../support/redis.ts'
import { type ServiceName, describeWith } from '../support/services.ts'
import { type Flow, type FlowBroker, startFlow } from './fixtures/broker-flow.ts'
import { createRandom, repeat } from './fixtures/random.ts'

interface Kind {
  service: ServiceName
  /** What an outage is told as. */
  away: RegExp
  start(): Promise<LocalServer>
  /** A stream of its own for each flow, with all that the ledger writes. */
  flow(server: LocalServer): Promise<FlowBroker>
}

let flows = 0

const kinds: Kind[] = [
  {
    service: 'nats-server',
    away: /nats|connect/i,
    // Every confirmed message on the disk, also when the process is killed.
    start: () => startNats(),
    async flow(server) {
      const url = `nats://127.0.0.1:${server.port}`
      const name = `FAULTS-${++flows}`
      const stream = await createStream(url, name, ['outbox.>'])
      return {
        name: 'nats',
        port: server.port,
        publisher: (port) =>
          natsPublisher({ url: `nats://127.0.0.1:${port}`, stream: name, connectTimeoutMs: 2_000 }),
        async drain(take) {
          for (const { headers, body } of await stream.messages()) take({ eventId: headers['id']!, body })
          await stream.manager.streams.delete(name)
          await stream.close()
        },
      }
    },
  },
  {
    service: 'redis-server',
    away: /redis|connect/i,
    start: () => startRedis(() => ({ appendfsync: 'always' })),
    async flow(server) {
      const redis = connectRedis(`redis://127.0.0.1:${server.port}`)
      await redis.flushall()
      return {
        name: 'redis',
        port: server.port,
        publisher: (port) =>
          redisStreamsPublisher({ url: `redis://127.0.0.1:${port}`, connectTimeoutMs: 2_000 }),
        async drain(take) {
          for (const topic of await redis.keys('outbox.*')) {
            for (const { headers, body } of await readStream(redis, topic)()) {
              take({ eventId: headers['id']!, body })
            }
          }
          redis.disconnect()
        },
      }
    },
  },
]

for (const { service, away, start, flow } of kinds) {
  describeWith(service, `${service} while events flow`, () => {
    let server: LocalServer
    beforeAll(async () => {
      server = await start()
    })
    const startOne = async (options?: { maxAttempts: number }): Promise<Flow> =>
      startFlow(await flow(server), options)

    test('is away for a while: told once, no attempt counted, nothing lost, order kept', async () => {
      const { proxy, relay, untilPublished, finish } = await startOne()
      await proxy.down()
      const { error } = await relay.until('destination.down')
      await delay(2_000)
      await proxy.up()
      await relay.until('destination.up')
      await untilPublished(100)
      await finish()
      expect(error).toMatch(away)
      expect(relay.events('destination.down')).toHaveLength(1)
    })

    test(
      'loses its connections again and again: nothing lost, order kept',
      { timeout: 60_000 * repeat },
      async () => {
        const random = createRandom()
        const { proxy, untilPublished, finish } = await startOne({ maxAttempts: 8 })
        let resets = 0
        for (let round = 0; round < 10 * repeat; round++) {
          await delay(random.between(10, 250))
          if (proxy.connections > 0) resets++
          proxy.reset()
          await untilPublished(random.between(1, 20))
        }
        // One that was under way at two resets, while others got through between them, may be counted.
        await finish(7)
        expect(resets).toBeGreaterThanOrEqual(5 * repeat)
      },
    )

    test('falls silent: no attempt counted, and it goes on when it answers again', async () => {
      const { proxy, relay, untilPublished, finish } = await startOne()
      const published = () => relay.events('batch.finished').filter((batch) => batch.published > 0).length
      proxy.blackhole()
      await relay.until('destination.down')
      await delay(2_000)
      const before = published()
      await delay(500)
      expect(published()).toBe(before)
      proxy.blackhole(false)
      await relay.until('destination.up')
      await untilPublished(100)
      await finish()
    })

    test.for(['SIGTERM', 'SIGKILL'] as const)(
      'is ended by %s and started again: nothing lost, order kept',
      { timeout: 60_000 },
      async (signal) => {
        const { relay, untilPublished, finish } = await startOne()
        await server.kill(signal)
        try {
          expect((await relay.until('destination.down')).error).toMatch(away)
        } finally {
          await server.restart()
        }
        await relay.until('destination.up')
        await untilPublished(100)
        await finish()
      },
    )
  })
}
