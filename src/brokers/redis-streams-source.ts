import { randomUUID } from 'node:crypto'
import { WaybillError, describeError, hasCode } from '../errors.ts'
import { resolveOptions } from '../options.ts'
import type { Source } from '../publishing/source.ts'
import { loadDependency } from './dependency.ts'
import { createReadingSource } from './reading/source.ts'
import { type RedisStreamsSourceOptions, redisStreamsSourceOptions } from './redis-streams-options.ts'
import { openRedisReading } from './redis/reading.ts'

/**
 * Reads streams of Redis as one consumer group, for `createConsumer`. Needs Redis 6.2 and the package `ioredis`.
 *
 *     const source = redisStreamsSource({ url: process.env.REDIS_URL, streams: ['outbox.event.order'], group: 'billing' })
 *
 * @throws CONFIGURATION_INVALID; `start` rejects with DEPENDENCY_MISSING, and with BROKER_UNAVAILABLE when the server
 *   refuses the user or a key is no stream
 */
export function redisStreamsSource(options: RedisStreamsSourceOptions & { name?: string }): Source {
  const { name = 'redis', ...rest } = options
  const settings = resolveOptions(redisStreamsSourceOptions, rest, { path: name })
  const { url, streams, group, readers, prefetch } = settings
  const { hostname, port, pathname } = new URL(url)
  const owner = randomUUID()

  return createReadingSource({
    name,
    subscription: `redis:${Number(pathname.slice(1))} group=${group} streams=${[...streams].sort().join(',')}`,
    exclusive: readers === 'exclusive',
    prefetch,
    async open(signal) {
      const { Redis } = await loadDependency('redis-streams', 'ioredis', () => import('ioredis'))
      return openRedisReading({ Redis, name, settings, owner }, signal)
    },
    isRefusal: (error) => hasCode(error, 'DEPENDENCY_MISSING') || refusal.test(describeError(error)),
    toError(cause) {
      if (hasCode(cause, 'DEPENDENCY_MISSING')) return cause
      const text = `${name}: Redis at ${hostname}:${port || '6379'} cannot be read: ${describeError(cause, 300)}`
      return new WaybillError('BROKER_UNAVAILABLE', text)
    },
  })
}

const refusal = /\b(NOAUTH|WRONGPASS|NOPERM|WRONGTYPE)\b|DB index is out of range/
