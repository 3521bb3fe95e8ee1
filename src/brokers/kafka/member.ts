import type { Consumer, EachBatchPayload } from 'kafkajs'
import { within, withResolvers } from '../../pause.ts'
import type { Receiver } from '../../publishing/source.ts'
import type { KafkaSourceSettings } from '../kafka-options.ts'
import { createSockets } from './client.ts'
import { type Generation, createGeneration } from './generation.ts'
import type { KafkaLibrary } from './session.ts'

/** One member of a consumer group, for as long as KafkaJS keeps it: it does not come back after a failure. */
export interface Member {
  /** Resolves when it has joined the group for the first time; rejects with what prevented that. */
  readonly joined: Promise<void>
  /** Resolves with the reason when it can no longer go on. */
  readonly failed: Promise<unknown>
  /** Waits for the answers, commits what is done, and leaves the group; at the latest after `graceMs` at once. */
  leave(graceMs: number): Promise<void>
  destroy(): void
}

/** A fetch that finds nothing, and with it a stop, takes so long, in milliseconds. */
const fetchWaitMs = 500
/** Pause between two commits, in milliseconds. */
const commitPauseMs = 100
const commitRetryMs = 1_000
const leaveMs = 5_000

export function createMember(
  library: KafkaLibrary,
  settings: KafkaSourceSettings,
  receive: Receiver,
): Member {
  const { group, topics, from, prefetch, sessionTimeoutMs } = settings
  const sockets = createSockets(settings)
  const heartbeatInterval = Math.min(3000, Math.floor(sessionTimeoutMs / 4))
  const consumer: Consumer = new library.Kafka(sockets.config).consumer({
    groupId: group,
    sessionTimeout: sessionTimeoutMs,
    // A member says something every `heartbeatInterval` whatever its handlers do, and joins again at once when it is
    // told to: one that did not is as good as dead. Longer would only be waited for where the broker does not notice a
    // death (one that was killed itself may come back without the sessions of its members), and as long for the answer.
    rebalanceTimeout: sessionTimeoutMs,
    heartbeatInterval,
    maxWaitTimeInMs: fetchWaitMs,
    allowAutoTopicCreation: false,
    retry: { retries: 2, initialRetryTime: 100, maxRetryTime: 1000, restartOnFailure: async () => false },
  })
  let generation: Generation | undefined
  let stopping = false
  let destroyed = false
  let committing: Promise<void> | undefined
  const joined = withResolvers<void>()
  const failed = withResolvers<unknown>()

  // Called while KafkaJS joins, before it reads anything of the new assignment.
  consumer.on(consumer.events.GROUP_JOIN, () => {
    sockets.connected()
    generation?.end()
    generation = createGeneration({
      receive,
      prefetch,
      onDone: () => void (committing ??= commitSoon(commitPauseMs)),
      onRoom: (topic, partition) => quietly(() => consumer.resume([{ topic, partitions: [partition] }])),
    })
    joined.resolve()
  })
  consumer.on(consumer.events.CRASH, ({ payload }) => fail(payload.error))

  function fail(error: unknown): void {
    generation?.end()
    joined.reject(error)
    failed.resolve(error)
  }

  async function start(): Promise<void> {
    await consumer.connect()
    await consumer.subscribe({ topics: [...topics], fromBeginning: from === 'earliest' })
    await consumer.run({ autoCommit: false, eachBatchAutoResolve: false, eachBatch })
  }

  /** Hands over what there is room for, and keeps the membership alive meanwhile. */
  async function eachBatch({
    batch,
    resolveOffset,
    heartbeat,
    isRunning,
    pause,
  }: EachBatchPayload): Promise<void> {
    const own = generation
    const { topic, partition, messages } = batch
    if (own === undefined) return
    for (const message of messages) {
      await withHeartbeats(own.room(), heartbeat)
      if (own !== generation || own.ended || stopping || !isRunning()) return
      if (!own.hasRoom(topic, partition)) {
        // It is read again from here when there is.
        pause()
        return
      }
      own.handOver(topic, partition, message)
      resolveOffset(message.offset)
    }
  }

  /** @throws KafkaJS's error when the partitions are given to others, so that it joins again */
  async function withHeartbeats(work: Promise<void>, heartbeat: () => Promise<void>): Promise<void> {
    let over = false
    const done = work.then(() => (over = true))
    while (!over) {
      let timer: NodeJS.Timeout | undefined
      const pause = new Promise((resolve) => (timer = setTimeout(resolve, heartbeatInterval)))
      await Promise.race([done, pause])
      clearTimeout(timer)
      if (!over) await heartbeat()
    }
  }

  /** KafkaJS throws when it has left the group by itself; then there is nothing to pause or to resume. */
  function quietly(act: () => void): void {
    try {
      act()
    } catch {
      // See above.
    }
  }

  async function commitSoon(pauseMs: number): Promise<void> {
    await new Promise((resolve) => setTimeout(resolve, pauseMs))
    committing = undefined
    await commit()
  }

  async function commit(): Promise<void> {
    const own = generation
    const commits = own?.takeCommits() ?? []
    if (own === undefined || commits.length === 0 || destroyed) return
    try {
      await consumer.commitOffsets(commits)
    } catch {
      // Until it works the messages would come again after a failure, as duplicates.
      own.putBack(commits)
      if (!stopping && !own.ended) committing ??= commitSoon(commitRetryMs)
    }
  }

  function destroy(): void {
    destroyed = true
    generation?.end()
    sockets.destroy()
    consumer.disconnect().catch(() => undefined)
  }

  start().catch(fail)
  // Also when nobody waits.
  joined.promise.catch(() => undefined)
  return {
    joined: joined.promise,
    failed: failed.promise,
    async leave(graceMs) {
      stopping = true
      if (generation !== undefined) {
        // KafkaJS goes on with its heartbeats, and reads nothing.
        quietly(() => consumer.pause(topics.map((topic) => ({ topic }))))
        generation.settle()
        await within(generation.idle(), graceMs)
        await within(commit(), leaveMs)
      }
      await within(consumer.disconnect(), leaveMs)
      destroy()
    },
    destroy,
  }
}
