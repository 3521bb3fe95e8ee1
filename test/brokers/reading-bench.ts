import { headers as natsHeaders } from '@nats-io/transport-node'
import { expect, vi } from 'vitest'
import { natsPublisher, natsSource } from '../../src/brokers/nats.ts'
import { redisStreamsPublisher, redisStreamsSource } from '../../src/brokers/redis-streams.ts'
import type { Message, Publisher } from '../../src/publishing/publisher.ts'
import type { Delivery, DeliveryAnswer, Source } from '../../src/publishing/source.ts'
import { testMessage } from '../../src/testing/test-message.ts'
import { atEndOfFile } from '../support/cleanups.ts'
import type { LocalServer } from '../support/local-server.ts'
import { connectNats, createStream } from '../support/nats-stream.ts'
import { startNats } from '../support/nats.ts'
import { type TcpProxy, createProxy } from '../support/proxy.ts'
import { connectRedis } from '../support/redis-stream.ts'
import { startRedis } from '../support/redis.ts'
import type { ServiceName } from '../support/services.ts'

/** A broker whose sources are built on `src/brokers/reading`. */
export interface ReadingBench {
  readonly server: LocalServer
  /** Makes a queue, and tells its topic. */
  newQueue(): Promise<string>
  send(messages: readonly Message[]): Promise<void>
  /** Puts something into the queue that is no event. */
  sendForeign(topic: string, body: string): Promise<void>
  /** Of one service, on this port of 127.0.0.1. */
  source(topic: string, port: number, options: ReaderOptions): Source
}

export interface ReaderOptions {
  readers?: 'exclusive' | 'shared'
  prefetch?: number
  /** After so long the messages of a process that died are another's. */
  keepMs?: number
}

interface ReadingBroker {
  readonly name: string
  readonly service: ServiceName
  /** So long that what a process had comes later than another process reads, where that can be. */
  readonly lateMs: number
  start(): Promise<ReadingBench>
}

let queues = 0

async function send(publisher: Publisher, messages: readonly Message[]): Promise<void> {
  const results = await publisher.publish(messages, { signal: AbortSignal.timeout(20_000) })
  for (const result of results) if (result.status !== 'published') throw result.error
}

async function startNatsBench(): Promise<ReadingBench> {
  const server = await startNats()
  const publisher = await natsPublisher({ url: server.url })
  atEndOfFile(() => publisher.close())
  return {
    server,
    async newQueue() {
      const name = `queue${++queues}`
      const stream = await createStream(server.url, name, [`${name}.>`])
      await stream.close()
      return `${name}.event`
    },
    send: (messages) => send(publisher, messages),
    async sendForeign(topic, body) {
      const connection = await connectNats(server.url)
      await connection.request(topic, body, { headers: natsHeaders(), timeout: 5000 })
    },
    source: (topic, port, { keepMs = 1500, ...options }) =>
      natsSource({
        ...{ url: `nats://127.0.0.1:${port}`, stream: topic.split('.')[0]!, consumer: 'service' },
        ...{ ackWaitMs: keepMs, ...options },
      }),
  }
}

async function startRedisBench(): Promise<ReadingBench> {
  const server = await startRedis()
  const redis = connectRedis(server.url)
  const publisher = await redisStreamsPublisher({ url: server.url })
  atEndOfFile(() => publisher.close())
  return {
    server,
    newQueue: async () => `queue${++queues}`,
    send: (messages) => send(publisher, messages),
    async sendForeign(topic, body) {
      await redis.xadd(topic, '*', 'body', body)
    },
    source: (topic, port, { keepMs = 1500, ...options }) =>
      redisStreamsSource({
        ...{ url: `redis://127.0.0.1:${port}`, streams: [topic], group: 'service' },
        ...{ claimAfterMs: keepMs, ...options },
      }),
  }
}

export const readingBrokers: readonly ReadingBroker[] = [
  { name: 'NATS', service: 'nats-server', lateMs: 20_000, start: startNatsBench },
  { name: 'Redis', service: 'redis-server', lateMs: 1500, start: startRedisBench },
]

/** So many messages, of one aggregate unless told otherwise. */
export function messagesTo(topic: string, count: number, overrides: Partial<Message> = {}): Message[] {
  return Array.from({ length: count }, () => testMessage({ topic, aggregateId: 'one', ...overrides }))
}

export const done: DeliveryAnswer = { status: 'done' }

/** A source at work behind a network of its own, stopped at the end. */
export interface Reader {
  readonly source: Source
  readonly proxy: TcpProxy
  readonly deliveries: readonly Delivery[]
  /** The bodies that were handed over, in order. */
  readonly bodies: readonly string[]
  readonly told: readonly string[]
  arrived(messages: readonly Message[]): Promise<void>
  stop(graceMs?: number): Promise<void>
}

export async function startReader(
  bench: ReadingBench,
  topic: string,
  options: ReaderOptions & { answer?: (delivery: Delivery) => DeliveryAnswer | Promise<DeliveryAnswer> } = {},
): Promise<Reader> {
  const { answer = () => done, ...rest } = options
  const proxy = await createProxy(bench.server.port)
  const source = bench.source(topic, proxy.port, rest)
  const deliveries: Delivery[] = []
  const told: string[] = []
  const stop = (graceMs = 5000) => source.stop({ graceMs })
  atEndOfFile(() => stop(100))
  await source.start(
    async (delivery) => {
      deliveries.push(delivery)
      return answer(delivery)
    },
    { observer: { down: (error) => void told.push(error.message), up: () => void told.push('up') } },
  )
  const bodies = () => deliveries.map(({ body }) => Buffer.from(body as string).toString())
  return {
    source,
    proxy,
    deliveries,
    told,
    get bodies() {
      return bodies()
    },
    arrived: (messages) =>
      vi.waitFor(() => expect(bodies()).toEqual(expect.arrayContaining(messages.map(({ body }) => body))), {
        timeout: 40_000,
      }),
    stop,
  }
}

/** Bodies in the order of their first arrival. */
export const firsts = (bodies: readonly string[]): string[] => [...new Set(bodies)]

export const bodiesOf = (messages: readonly Message[]): string[] => messages.map(({ body }) => body)
