import { redisStreamsPublisher, redisStreamsSource } from '../../src/brokers/redis-streams.ts'
import type { PublisherSubject } from '../../src/testing/publisher-bench.ts'
import type { SourceSubject } from '../../src/testing/source-bench.ts'
import { createProxy } from '../support/proxy.ts'
import { connectRedis, readStream } from '../support/redis-stream.ts'
import { startRedis } from '../support/redis.ts'

const stream = 'outbox.event.contract'

/** For the contract suite: the server of WAYBILL_TEST_REDIS_URL, which is then not restarted, or one's own. */
export function redisStreamsSubject(name: string): PublisherSubject {
  const given = process.env['WAYBILL_TEST_REDIS_URL']
  return {
    name,
    features: {
      ordering: 'batch',
      headers: true,
      oversize: true,
      cut: true,
      restart: given === undefined,
      misaddressed: false,
    },
    async setUp() {
      const server = given === undefined ? await startRedis() : undefined
      const serverUrl = new URL(server?.url ?? given!)
      const proxy = await createProxy(Number(serverUrl.port || 6379))
      const url = serverUrl.href.replace(serverUrl.host, `127.0.0.1:${proxy.port}`)
      const redis = connectRedis(serverUrl.href)
      const entries = readStream(redis, stream)
      return {
        create: () => redisStreamsPublisher({ url, maxMessageBytes: 2_000_000 }),
        received: async () =>
          (await entries()).map(({ headers, body }) => ({
            messageId: [headers['id'], headers['replay']].filter(Boolean).join('.r'),
            eventId: headers['id']!,
            headers,
            body,
          })),
        cut: async () => proxy.reset(),
        stop: async () => server?.kill('SIGTERM'),
        start: async () => server?.restart(),
        async tearDown() {
          await redis.del(stream)
          redis.disconnect()
          await proxy.close()
          await server?.stop()
        },
      }
    },
  }
}

/** For the contract of sources. */
export function redisStreamsSourceSubject(name: string, readers: 'exclusive' | 'shared'): SourceSubject {
  return {
    name,
    features: {
      ordering: readers === 'exclusive' ? 'aggregate' : 'none',
      holding: true,
      headers: true,
      cut: true,
      restart: true,
    },
    async setUp() {
      const server = await startRedis()
      const proxy = await createProxy(server.port)
      const publisher = await redisStreamsPublisher({ url: server.url })
      const url = `redis://127.0.0.1:${proxy.port}`
      const options = { url, streams: [stream], group: 'contract', readers, claimAfterMs: 3000 }
      return {
        create: () => redisStreamsSource(options),
        async send(messages) {
          const results = await publisher.publish(messages, { signal: AbortSignal.timeout(10_000) })
          for (const result of results) if (result.status !== 'published') throw result.error
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
  }
}
