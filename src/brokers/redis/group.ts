import type { Redis } from 'ioredis'
import type { Delivery } from '../../publishing/source.ts'
import type { Taken } from '../reading/reading.ts'

export interface TakenEntry extends Taken {
  readonly stream: string
  readonly id: string
}

/** A consumer group over several streams. */
export interface Group {
  /** Makes it where it is missing, at the beginning of the stream. */
  make(): Promise<void>
  /** New entries of these streams, at most `count` of each; waits for them on this connection. */
  read(reader: Redis, streams: readonly string[], count: number, blockMs: number): Promise<TakenEntry[]>
  /** Takes over entries that had no answer for `idleMs`, from `start` on, whoever had them. */
  claim(stream: string, from: { idleMs: number; start: string; most: number }): Promise<Claimed>
  acknowledge(entry: TakenEntry): Promise<void>
  /** Counts the time without an answer from so long ago. */
  setIdle(entries: readonly TakenEntry[], idleMs: number): Promise<void>
}

export interface Claimed {
  /** Where to go on; {@link beginning} after the last. */
  readonly next: string
  readonly entries: TakenEntry[]
}

export const beginning = '0-0'

/**
 * All processes are one consumer of the group: whose an entry is, is told by the time without an answer, and no
 * consumers of processes that are gone are left behind.
 */
const consumer = 'waybill'

type Entry = readonly [id: string, fields: readonly string[]]

export function redisGroup(redis: Redis, group: string, streams: readonly string[]): Group {
  return {
    async make() {
      for (const stream of streams) {
        try {
          await redis.xgroup('CREATE', stream, group, '0', 'MKSTREAM')
        } catch (error) {
          if (!(error instanceof Error && error.message.startsWith('BUSYGROUP'))) throw error
        }
      }
    },
    async read(reader, from, count, blockMs) {
      const limits = ['GROUP', group, consumer, 'COUNT', count, 'BLOCK', blockMs]
      const reply = await reader.call('xreadgroup', [...limits, 'STREAMS', ...from, ...from.map(() => '>')])
      const found = (reply ?? []) as (readonly [stream: string, entries: readonly Entry[]])[]
      return found.flatMap(([stream, entries]) => entries.map((entry) => toTaken(stream, entry, false)))
    },
    async claim(stream, { idleMs, start, most }) {
      const reply = await redis.call('xautoclaim', [stream, group, consumer, idleMs, start, 'COUNT', most])
      const [next, entries] = reply as [string, readonly (Entry | null)[]]
      // Before version 7 an entry that was trimmed stands in the list as nothing.
      const left = entries.filter((entry) => entry !== null)
      return { next, entries: left.map((entry) => toTaken(stream, entry, true)) }
    },
    async acknowledge({ stream, id }) {
      await redis.xack(stream, group, id)
    },
    async setIdle(entries, idleMs) {
      const byStream = streams.map((stream) => [stream, entries.filter((entry) => entry.stream === stream)])
      await Promise.all(
        (byStream as [string, TakenEntry[]][])
          .filter(([, own]) => own.length > 0)
          .map(([stream, own]) => {
            const ids = own.map(({ id }) => id)
            return redis.call('xclaim', [stream, group, consumer, 0, ...ids, 'IDLE', idleMs, 'JUSTID'])
          }),
      )
    },
  }
}

function toTaken(stream: string, [id, fields]: Entry, redelivered: boolean): TakenEntry {
  const pairs = Array.from(
    { length: fields.length / 2 },
    (_, i) => [fields[2 * i]!, fields[2 * i + 1]!] as const,
  )
  const delivery: Delivery = {
    binding: 'redis',
    body: pairs.findLast(([name]) => name === 'body')?.[1] ?? '',
    headers: pairs.filter(([name]) => name !== 'body'),
    contentType: null,
    topic: stream,
    key: null,
    origin: `redis:${stream}@${id}`,
    redelivered,
  }
  return { stream, id, delivery }
}
