import type { Redis } from 'ioredis'
import { afterEach, expect } from 'vitest'
import { type RedisStreamsOptions, redisStreamsPublisher } from '../../src/brokers/redis-streams.ts'
import type { Message, Publisher, PublishResult } from '../../src/publishing/publisher.ts'
import { testMessage } from '../../src/testing/test-message.ts'
import { type TcpProxy, createProxy } from '../support/proxy.ts'
import { connectRedis } from '../support/redis-stream.ts'
import { type RedisServer, startRedis } from '../support/redis.ts'

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

const publishers: Publisher[] = []
afterEach(async () => {
  await Promise.all(publishers.splice(0).map((publisher) => publisher.close()))
})

/** A publisher that is closed after the test. */
export async function streams(options: RedisStreamsOptions & { name?: string }): Promise<Publisher> {
  const publisher = await redisStreamsPublisher(options)
  publishers.push(publisher)
  return publisher
}

/** A publisher with a network in between that a test can disturb. */
export async function streamsThroughProxy(
  options: Omit<RedisStreamsOptions, 'url'> = {},
): Promise<{ publisher: Publisher; proxy: TcpProxy }> {
  const proxy = await createProxy(server.port)
  return { proxy, publisher: await streams({ ...options, url: `redis://127.0.0.1:${proxy.port}` }) }
}

export const publish = (publisher: Publisher, messages: readonly Message[], ms = 10_000) =>
  publisher.publish(messages, { signal: AbortSignal.timeout(ms) })

export async function publishOne(
  publisher: Publisher,
  message = testMessage(),
  ms?: number,
): Promise<PublishResult> {
  const [result] = await publish(publisher, [message], ms)
  return result!
}

/** What a promise was rejected with. */
export const failure = (promise: Promise<unknown>): Promise<Error> =>
  promise.then(
    () => expect.unreachable('expected a rejection'),
    (error: Error) => error,
  )

let topics = 0
/** A stream that no other test uses. */
export const newStream = (): string => `outbox.event.test${++topics}`
