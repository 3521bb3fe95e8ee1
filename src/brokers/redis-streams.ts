import { resolveOptions } from '../options.ts'
import { type Encoder, createEncoder } from '../publishing/format.ts'
import {
  type Message,
  type Publisher,
  type PublishResult,
  publishFailed,
  unprepared,
} from '../publishing/publisher.ts'
import { whenAborted } from './abort.ts'
import type { Broker } from './broker.ts'
import { loadDependency } from './dependency.ts'
import {
  type RedisStreamsOptions,
  type RedisStreamsSettings,
  redisStreamsOptions,
} from './redis-streams-options.ts'
import { type RedisClass, openRedis } from './redis/connection.ts'
import { type RedisEntry, toRedisEntry } from './redis/entry.ts'
import { belongsElsewhere, redisResult } from './redis/outcomes.ts'
import { type Added, addEntries } from './redis/transactions.ts'
import { createSessions } from './sessions.ts'

export type { RedisStreamsOptions, RedisStreamsSourceOptions } from './redis-streams-options.ts'
export { redisStreamsSource } from './redis-streams-source.ts'

/**
 * Adds each event to a stream of Redis (`XADD`), those of one call in one round trip. Fields, answers and limits are
 * in `docs/brokers/redis-streams.md`. Needs the package `ioredis`.
 *
 * @throws CONFIGURATION_INVALID, DEPENDENCY_MISSING
 */
export async function redisStreamsPublisher(
  options: RedisStreamsOptions & { name?: string },
): Promise<Publisher> {
  const { name = 'redis', ...rest } = options
  return createPublisher(name, resolveOptions(redisStreamsOptions, rest, { path: name }))
}

export const broker: Broker<typeof redisStreamsOptions> = {
  options: redisStreamsOptions,
  create: createPublisher,
}

/** All entries of a stream are one transaction, which nobody else gets a word into. */
const maxBatchSize = 1000

async function createPublisher(name: string, settings: RedisStreamsSettings): Promise<Publisher> {
  const { Redis } = await loadDependency('redis-streams', 'ioredis', () => import('ioredis'))
  const { url, maxLength, maxMessageBytes, cloudEventsSource } = settings
  const encoder = createEncoder({ binding: 'redis', cloudEventsSource })
  const { hostname, port } = new URL(url)
  const where = `Redis at ${hostname}:${port || '6379'}`
  const sessions = createSessions({ name, where }, () => openRedis(Redis as RedisClass, name, settings))

  async function add(entries: readonly RedisEntry[], signal: AbortSignal): Promise<PublishResult[]> {
    if (entries.length === 0) return []
    const { connection, leave } = await sessions.enter(signal)
    const call = whenAborted(signal)
    let added: readonly Added[] | undefined
    try {
      added = await Promise.race([addEntries(connection.redis, entries, maxLength), call.promise])
      const results = entries.map(({ stream }, index) => redisResult(name, stream, added?.[index]))
      return await sessions.explain(connection, results, signal)
    } finally {
      call.release()
      leave({ usable: added !== undefined && !added.some(isElsewhere) })
    }
  }

  return {
    name,
    capabilities: { ordering: 'batch', deduplication: false, maxMessageBytes, maxBatchSize },
    observe: (observer) => encoder.observe(observer),
    connect: sessions.checkHealth,
    async publish(messages, { signal }) {
      const prepared = prepareAll(messages, encoder, maxMessageBytes)
      const entries = prepared.filter((item) => 'stream' in item)
      const results = await add(entries, signal)
      let next = 0
      return prepared.map((item) => ('stream' in item ? results[next++]! : item))
    },
    checkHealth: sessions.checkHealth,
    close: sessions.close,
  }
}

function isElsewhere(added: Added): boolean {
  return added instanceof Error && belongsElsewhere(added)
}

/** An event behind one of its aggregate that cannot be sent is not sent either: it must not overtake. */
function prepareAll(
  messages: readonly Message[],
  encoder: Encoder,
  maxMessageBytes: number,
): (RedisEntry | PublishResult)[] {
  const stopped = new Set<string>()
  return messages.map((message) => {
    const { aggregateType, aggregateId } = message
    if (stopped.size > 0 && stopped.has(JSON.stringify([aggregateType, aggregateId]))) return behind
    try {
      return toRedisEntry(message, encoder, maxMessageBytes)
    } catch (error) {
      stopped.add(JSON.stringify([aggregateType, aggregateId]))
      return unprepared(error)
    }
  })
}

const behind: PublishResult = {
  status: 'retry',
  error: publishFailed('not sent: an earlier event of its aggregate could not be sent'),
  afterMs: 0,
}
