import { Redis } from 'ioredis'
import { atEndOfFile } from './cleanups.ts'

export interface StreamEntry {
  readonly id: string
  /** All fields but `body`. */
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

/** A client that waits for the server, closed at the end of the test file. */
export function connectRedis(url: string): Redis {
  const redis = new Redis(url, { retryStrategy: () => 50, maxRetriesPerRequest: null })
  redis.on('error', () => undefined)
  atEndOfFile(() => redis.disconnect())
  return redis
}

/** Reads a stream; each call answers all entries so far, in order. */
export function readStream(redis: Redis, stream: string): () => Promise<readonly StreamEntry[]> {
  const seen: StreamEntry[] = []
  return async () => {
    const start = seen.length === 0 ? '-' : `(${seen.at(-1)!.id}`
    for (const [id, fields] of await redis.xrange(stream, start, '+')) seen.push(toEntry(id, fields))
    return seen
  }
}

function toEntry(id: string, fields: readonly string[]): StreamEntry {
  const pairs = Array.from({ length: fields.length / 2 }, (_, i) => [fields[2 * i]!, fields[2 * i + 1]!])
  const { body = '', ...headers } = Object.fromEntries(pairs) as Record<string, string>
  return { id, headers, body }
}
