import type { Message, Publisher, PublishResult } from '../../src/publishing/publisher.ts'

export interface Delivery {
  readonly message: Message
  readonly at: number
}

export interface RecordingPublisher extends Publisher {
  /** What was confirmed, in the order of the confirmations. */
  readonly delivered: Delivery[]
  /** The messages of each call. */
  readonly calls: (readonly Message[])[]
  /** Most calls that were under way at the same moment. */
  readonly mostAtOnce: number
  /** Resolves when so many deliveries were confirmed. */
  untilDelivered(count: number): Promise<void>
  /** Resolves when so many calls were made. */
  untilCalled(count: number): Promise<void>
  /** Of one aggregate, in order. */
  bodies(aggregateId: string): string[]
}

export type Behaviour = (message: Message, signal: AbortSignal) => PublishResult | Promise<PublishResult>

export interface RecordingOptions {
  ordering?: 'batch' | 'per-call'
  /** Outcome of one message. Default: published. */
  behave?: Behaviour
  /** Runs before any message of a call; what it throws, the call throws. */
  onCall?: (messages: readonly Message[]) => void | Promise<void>
  maxMessageBytes?: number
}

/** A publisher that keeps what it was given, with one behaviour for each message. */
export function recordingPublisher(options: RecordingOptions = {}): RecordingPublisher {
  const {
    ordering = 'per-call',
    behave = (): PublishResult => ({ status: 'published' }),
    onCall,
    maxMessageBytes,
  } = options
  const delivered: Delivery[] = []
  const calls: (readonly Message[])[] = []
  const watchers = new Set<() => void>()
  let active = 0
  let mostAtOnce = 0

  const changed = () => {
    for (const watcher of watchers) watcher()
  }
  const until = (reached: () => boolean) =>
    new Promise<void>((resolve) => {
      const check = () => {
        if (!reached()) return
        watchers.delete(check)
        resolve()
      }
      watchers.add(check)
      check()
    })

  return {
    name: 'recording',
    capabilities: {
      ordering,
      deduplication: false,
      ...(maxMessageBytes === undefined ? {} : { maxMessageBytes }),
    },
    delivered,
    calls,
    get mostAtOnce() {
      return mostAtOnce
    },
    untilDelivered: (count) => until(() => delivered.length >= count),
    untilCalled: (count) => until(() => calls.length >= count),
    bodies: (aggregateId) =>
      delivered
        .filter(({ message }) => message.aggregateId === aggregateId)
        .map(({ message }) => message.body),
    async publish(messages, { signal, onPublished }) {
      calls.push(messages)
      active++
      mostAtOnce = Math.max(mostAtOnce, active)
      changed()
      try {
        await onCall?.(messages)
        const failedKeys = new Set<string>()
        const results: PublishResult[] = []
        const one = async (message: Message, index: number): Promise<PublishResult> => {
          const result = await behave(message, signal)
          if (result.status === 'published') {
            delivered.push({ message, at: performance.now() })
            changed()
            onPublished?.(index, result.receipt)
          }
          return result
        }
        if (ordering === 'per-call') return await Promise.all(messages.map(one))
        for (const [index, message] of messages.entries()) {
          if (failedKeys.has(message.aggregateId)) {
            results.push({ status: 'retry', error: new Error('behind a failed one') })
            continue
          }
          const result = await one(message, index)
          if (result.status !== 'published') failedKeys.add(message.aggregateId)
          results.push(result)
        }
        return results
      } finally {
        active--
      }
    },
    close: () => Promise.resolve(),
  }
}
