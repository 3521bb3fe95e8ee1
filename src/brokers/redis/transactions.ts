import type { Redis } from 'ioredis'
import type { RedisEntry } from './entry.ts'
import { redisFailureOf } from './outcomes.ts'

/** What became of one entry: its id in the stream, or the error. */
export type Added = string | Error

type Reply = readonly [error: Error | null, result?: unknown]

/**
 * Adds entries in one round trip. Those of one stream are one transaction: all of them are added, in order, or none,
 * so that nothing can overtake an entry that the server did not take (no memory for a moment, a change of its role).
 * Transactions of different streams know nothing of each other.
 */
export async function addEntries(
  redis: Redis,
  entries: readonly RedisEntry[],
  maxLength: number | undefined,
): Promise<Added[]> {
  const trim = maxLength === undefined ? [] : ['MAXLEN', '~', maxLength]
  const pipeline = redis.pipeline()
  const added: Added[] = []
  const places: { indexes: readonly number[]; first: number }[] = []
  for (const indexes of byStream(entries)) {
    places.push({ indexes, first: pipeline.length })
    if (indexes.length > 1) pipeline.call('multi')
    for (const index of indexes) {
      const { stream, fields } = entries[index]!
      pipeline.call('xadd', [stream, ...trim, '*', ...fields])
    }
    if (indexes.length > 1) pipeline.call('exec')
  }
  const replies = (await pipeline.exec()) as Reply[]
  for (const { indexes, first } of places) {
    const answers =
      indexes.length > 1 ? transaction(replies, first, indexes.length) : [single(replies[first]!)]
    indexes.forEach((index, i) => (added[index] = answers[i]!))
  }
  return added
}

function byStream(entries: readonly RedisEntry[]): Iterable<readonly number[]> {
  const streams = new Map<string, number[]>()
  for (const [index, { stream }] of entries.entries()) {
    const indexes = streams.get(stream)
    if (indexes === undefined) streams.set(stream, [index])
    else indexes.push(index)
  }
  return streams.values()
}

function single([error, result]: Reply): Added {
  return error ?? (result instanceof Error ? result : String(result))
}

/** `multi`, then one reply for each entry (queued, or why not), then that of `exec`. */
function transaction(replies: readonly Reply[], first: number, size: number): Added[] {
  const queued = replies.slice(first + 1, first + 1 + size)
  const [problem, results] = replies[first + 1 + size]!
  if (problem === null) return (results as unknown[]).map((result) => single([null, result]))
  // Nothing was added. The reason stands where it was noticed, and holds for the others as well, unless it is one
  // entry that is never taken.
  const reason = queued.find(([error]) => error !== null)?.[0] ?? problem
  const ofAll = redisFailureOf(reason) === 'refused' ? problem : reason
  return queued.map(([error]) => error ?? ofAll)
}
