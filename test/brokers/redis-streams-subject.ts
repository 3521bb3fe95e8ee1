import { redisStreamsPublisher } from '../../src/brokers/redis-streams.ts'
import type { PublisherSubject } from '../../src/testing/publisher-bench.ts'
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
