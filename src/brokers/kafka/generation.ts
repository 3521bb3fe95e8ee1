import type { KafkaMessage } from 'kafkajs'
import { createSharedAbort } from '../../pause.ts'
import type { HeaderPair } from '../../publishing/headers.ts'
import type { Delivery, DeliveryAnswer, Receiver } from '../../publishing/source.ts'
import { type Position, createPosition } from './position.ts'

/**
 * What a member of a group has in hand from one assignment of partitions to the next. With the next one all of it is
 * lost, also of partitions that stay: they are read again from what was committed, and what was handled meanwhile is
 * found out to be a repetition.
 */
export interface Generation {
  readonly ended: boolean
  /** False when a message of this partition is not done for so long that others must wait for it. */
  hasRoom(topic: string, partition: number): boolean
  /** Resolves when fewer than `prefetch` deliveries are unanswered, or the generation ends. */
  room(): Promise<void>
  handOver(topic: string, partition: number, message: KafkaMessage): void
  /** What has to be committed, and is not yet. */
  takeCommits(): Commit[]
  /** They could not be committed. */
  putBack(commits: readonly Commit[]): void
  /** Resolves when every delivery has its answer, and none comes again. */
  idle(): Promise<void>
  /** No delivery comes again by itself. */
  settle(): void
  /** The partitions are no longer ours: answers count no more. */
  end(): void
}

export interface Commit {
  readonly topic: string
  readonly partition: number
  /** Of the next message to read. */
  readonly offset: string
}

export interface GenerationOptions {
  readonly receive: Receiver
  readonly prefetch: number
  /** There is something to commit. */
  readonly onDone: () => void
  /** A partition that had no room has some. */
  readonly onRoom: (topic: string, partition: number) => void
}

/** So many messages behind one that is not done, times `prefetch`; also how far a former owner may have been. */
const spanFactor = 10

export function createGeneration({ receive, prefetch, onDone, onRoom }: GenerationOptions): Generation {
  const positions = new Map<string, Position>()
  /** Messages of each partition that were handed over first: its former owner may have died with them in hand. */
  const begun = new Map<string, number>()
  const dirty = new Map<string, Commit>()
  const full = new Set<string>()
  const lost = createSharedAbort()
  const timers = new Set<NodeJS.Timeout>()
  const widest = prefetch * spanFactor
  let unanswered = 0
  let settling = false
  let waiting: (() => void)[] = []

  function wake(): void {
    const woken = waiting
    waiting = []
    for (const resolve of woken) resolve()
  }

  const changed = (): Promise<void> => new Promise((resolve) => waiting.push(resolve))

  async function deliver(
    topic: string,
    partition: number,
    delivery: Delivery,
    offset: string,
  ): Promise<void> {
    const answer = await receive(delivery)
    if (!lost.signal.aborted && !settling && answer.status === 'again') {
      comeAgain(answer, () => void deliver(topic, partition, { ...delivery, redelivered: true }, offset))
      return
    }
    unanswered--
    if (!lost.signal.aborted && answer.status === 'done') finish(topic, partition, offset)
    wake()
  }

  function comeAgain(
    { afterMs }: Extract<DeliveryAnswer, { status: 'again' }>,
    deliverAgain: () => void,
  ): void {
    const timer = setTimeout(() => {
      timers.delete(timer)
      deliverAgain()
    }, afterMs)
    timers.add(timer)
  }

  function finish(topic: string, partition: number, offset: string): void {
    const key = keyOf(topic, partition)
    const position = positions.get(key)!
    if (!position.done(offset)) return
    dirty.set(key, { topic, partition, offset: position.commit! })
    onDone()
    if (position.span < widest && full.delete(key)) onRoom(topic, partition)
  }

  /** What waited to come again will not: it is unanswered no longer, and not done. */
  function dropTimers(): void {
    for (const timer of timers) clearTimeout(timer)
    unanswered -= timers.size
    timers.clear()
    wake()
  }

  return {
    get ended() {
      return lost.signal.aborted
    },
    hasRoom(topic, partition) {
      const key = keyOf(topic, partition)
      if ((positions.get(key)?.span ?? 0) < widest) return true
      full.add(key)
      return false
    },
    async room() {
      while (unanswered >= prefetch && !lost.signal.aborted && !settling) await changed()
    },
    handOver(topic, partition, message) {
      const key = keyOf(topic, partition)
      let position = positions.get(key)
      if (position === undefined) positions.set(key, (position = createPosition()))
      position.add(message.offset)
      const count = begun.get(key) ?? 0
      // Twice: a commit may have been under way when the former owner died.
      const redelivered = count < 2 * widest
      if (redelivered) begun.set(key, count + 1)
      unanswered++
      const delivery = toDelivery(topic, partition, message, redelivered, lost.signal)
      void deliver(topic, partition, delivery, message.offset)
    },
    takeCommits() {
      const commits = [...dirty.values()]
      dirty.clear()
      return commits
    },
    putBack(commits) {
      for (const commit of commits) {
        const key = keyOf(commit.topic, commit.partition)
        if (!dirty.has(key)) dirty.set(key, commit)
      }
    },
    async idle() {
      while (unanswered > 0) await changed()
    },
    settle() {
      settling = true
      dropTimers()
    },
    end() {
      lost.abort()
      dropTimers()
    },
  }
}

function toDelivery(
  topic: string,
  partition: number,
  { key, value, headers = {}, offset }: KafkaMessage,
  redelivered: boolean,
  lost: AbortSignal,
): Delivery {
  return {
    binding: 'kafka',
    body: value ?? '',
    headers: Object.entries(headers).flatMap(([name, given]) =>
      [given].flat().flatMap((text): HeaderPair[] => (text == null ? [] : [[name, text.toString()]])),
    ),
    contentType: null,
    topic,
    key: key === null ? null : key.toString(),
    origin: `kafka:${topic}/${partition}@${offset}`,
    redelivered,
    lost,
  }
}

function keyOf(topic: string, partition: number): string {
  return `${topic}/${partition}`
}
