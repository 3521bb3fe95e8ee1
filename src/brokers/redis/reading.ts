import { beforeAbort } from '../abort.ts'
import type { Reading } from '../reading/reading.ts'
import type { RedisStreamsSourceSettings } from '../redis-streams-options.ts'
import { type RedisClass, openRedis } from './connection.ts'
import { type TakenEntry, beginning, redisGroup } from './group.ts'
import { redisLease } from './lease.ts'

export interface RedisReadingOptions {
  readonly Redis: RedisClass
  readonly name: string
  readonly settings: RedisStreamsSourceSettings
  /** Tells this process from all others. */
  readonly owner: string
}

/** A read waits so long at the server; one of a process that died takes entries until then. */
const longestBlockMs = 2_000
/** So often it is looked whether another process left something. */
const walkPauseMs = 1_000

/** Connects, makes what is missing of the group, and reads. */
export async function openRedisReading(
  { Redis, name, settings, owner }: RedisReadingOptions,
  signal: AbortSignal,
): Promise<Reading<TakenEntry>> {
  const { streams, group: groupName, readers, claimAfterMs, connectTimeoutMs } = settings
  const exclusive = readers === 'exclusive'
  const blockMs = Math.min(longestBlockMs, Math.floor(claimAfterMs / 2))
  // Reading blocks a connection, so everything else has one of its own.
  const reader = openRedis(Redis, name, settings, { commandTimeout: blockMs + connectTimeoutMs })
  const control = openRedis(Redis, name, settings, {
    commandTimeout: connectTimeoutMs,
    enableAutoPipelining: true,
  })
  const { redis } = control
  const group = redisGroup(redis, groupName, streams)
  let readerId: number | undefined
  /** Not given out yet. */
  const taken: TakenEntry[] = []
  /** A walk through what has no answer, where it is in each stream. The only reader begins with all that is left. */
  const walk = new Map(streams.map((stream) => [stream, beginning]))
  let idleMs = exclusive ? 0 : claimAfterMs
  let walkedAt = performance.now()

  async function open(): Promise<void> {
    await Promise.all([reader.ready, control.ready])
    await group.make()
    // Without the permission for these a read ends by itself, soon.
    readerId = await reader.redis.client('ID').catch(() => undefined)
  }

  function unblockReader(): void {
    if (readerId !== undefined) void redis.client('UNBLOCK', readerId).catch(() => undefined)
  }

  async function takeLeft(most: number, stop: AbortSignal): Promise<readonly TakenEntry[]> {
    if (walk.size === 0 && performance.now() - walkedAt >= walkPauseMs) {
      for (const stream of streams) walk.set(stream, beginning)
      idleMs = claimAfterMs
    }
    for (const [stream, start] of walk) {
      if (stop.aborted) return []
      const { next, entries } = await group.claim(stream, { idleMs, start, most })
      walkedAt = performance.now()
      walk.delete(stream)
      // Set anew, it comes again in this loop.
      if (next !== beginning) walk.set(stream, next)
      if (entries.length > 0) return entries
    }
    return []
  }

  async function takeNew(most: number, stop: AbortSignal): Promise<readonly TakenEntry[]> {
    stop.addEventListener('abort', unblockReader, { once: true })
    try {
      // The limit is one for each stream.
      return await group.read(reader.redis, streams, Math.ceil(most / streams.length), blockMs)
    } finally {
      stop.removeEventListener('abort', unblockReader)
    }
  }

  async function take(most: number, stop: AbortSignal): Promise<readonly TakenEntry[]> {
    for (const find of [takeLeft, takeNew]) {
      if (taken.length === 0 && !stop.aborted) taken.push(...(await find(most, stop)))
    }
    return taken.splice(0, stop.aborted ? Infinity : most)
  }

  async function close(): Promise<void> {
    await Promise.all([reader.destroy(), control.destroy()])
  }

  try {
    await beforeAbort(signal, open())
  } catch (error) {
    await close()
    throw error
  }
  return {
    keepMs: claimAfterMs,
    lease: exclusive
      ? redisLease(redis, `${streams.toSorted()[0]}:${groupName}:reader`, owner, claimAfterMs)
      : null,
    take,
    acknowledge: group.acknowledge,
    keep: (entries) => group.setIdle([...entries, ...taken], 0),
    giveBack: (entries) => group.setIdle([...entries, ...taken], claimAfterMs),
    close,
  }
}
