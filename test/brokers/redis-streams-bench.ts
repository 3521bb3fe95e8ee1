import type { Redis } from 'ioredis'
import { type RedisStreamsOptions, redisStreamsPublisher } from '../../src/brokers/redis-streams.ts'
import type { Publisher } from '../../src/publishing/publisher.ts'
import { type TcpProxy, createProxy } from '../support/proxy.ts'
import { connectRedis } from '../support/redis-stream.ts'
import { type RedisServer, startRedis } from '../support/redis.ts'
import { closeLater } from './publishing.ts'

/** The server of this test file, once {@link startBench} is done. */
export let server: RedisServer
/** A client of its own. */
export let redis: Redis

/** Starts the server of this test file: for `beforeAll`. */
export async function startBench(
  settings?: (port: string) => Record<string, string>,
  password = '',
): Promise<void> {
  server = await startRedis(settings)
  redis = connectRedis(server.url.replace('//', `//:${password}@`))
}

/** A publisher that is closed after the test. */
export async function streams(options: RedisStreamsOptions & { name?: string }): Promise<Publisher> {
  return closeLater(await redisStreamsPublisher(options))
}

/** A publisher with a network in between that a test can disturb. */
export async function streamsThroughProxy(
  options: Omit<RedisStreamsOptions, 'url'> = {},
): Promise<{ publisher: Publisher; proxy: TcpProxy }> {
  const proxy = await createProxy(server.port)
  return { proxy, publisher: await streams({ ...options, url: `redis://127.0.0.1:${proxy.port}` }) }
}

let topics = 0
/** A stream that no other test uses. */
export const newStream = (): string => `outbox.event.test${++topics}`
