import { createSharedAbort, pause, retryPauseMs, within } from '../../pause.ts'
import type { Receiver, Source } from '../../publishing/source.ts'
import { type SourceState, createSourceState } from '../source-state.ts'
import type { Reading, Taken } from './reading.ts'
import { runSession } from './session.ts'

export interface ReadingSourceOptions<M extends Taken> {
  readonly name: string
  readonly subscription: string
  /** One process reads, in order; false: many read, and messages may overtake each other. */
  readonly exclusive: boolean
  readonly prefetch: number
  open(signal: AbortSignal): Promise<Reading<M>>
  /** Waiting does not mend it. */
  isRefusal(error: unknown): boolean
  /** What people are told. */
  toError(cause: unknown): Error
}

const longestPauseMs = 10_000

/** A source that reads through one connection after the other: see `session.ts`. */
export function createReadingSource<M extends Taken>(options: ReadingSourceOptions<M>): Source {
  const { name, subscription, exclusive, prefetch, toError } = options
  const stopping = createSharedAbort()
  const over = createSharedAbort()
  const hand = new Set<M>()
  const answering = new Set<Promise<unknown>>()
  let starting: Promise<void> | undefined
  let running: Promise<void> | undefined
  let stopped: Promise<void> | undefined

  /** Resolves when messages may come, or when the broker is away; rejects with what waiting does not mend. */
  function begin(receive: Receiver, state: SourceState): Promise<void> {
    return new Promise((resolve, reject) => {
      let begun = false
      const begins = () => {
        begun = true
        resolve()
      }
      const failed = (error: unknown) => {
        if (begun || !options.isRefusal(error)) {
          begins()
          return state.failed(toError(error))
        }
        stopping.abort()
        reject(toError(error))
      }
      running = run(receive, { begins, failed, works: () => state.works() }).finally(resolve)
    })
  }

  async function run(receive: Receiver, tell: Tell): Promise<void> {
    for (let failures = 0; !stopping.signal.aborted;) {
      const works = () => {
        failures = 0
        tell.works()
      }
      try {
        await runSession({
          ...{ receive, prefetch, hand, works, begins: tell.begins },
          reading: await options.open(stopping.signal),
          stopping: stopping.signal,
          over: over.signal,
        })
      } catch (error) {
        if (!stopping.signal.aborted) tell.failed(error)
      }
      await pause(retryPauseMs(failures++, longestPauseMs), stopping.signal)
    }
  }

  /** Knows what is still with the receiver, also of sessions that are over. */
  function counted(receive: Receiver): Receiver {
    return (delivery) => {
      const answer = receive(delivery)
      answering.add(answer)
      void answer.then(() => answering.delete(answer))
      return answer
    }
  }

  async function end(graceMs: number): Promise<void> {
    stopping.abort()
    const answers = async () => {
      await running
      while (answering.size > 0) await Promise.all(answering)
    }
    await within(answers(), graceMs)
    over.abort()
    await running
  }

  return {
    name,
    subscription,
    capabilities: { ordering: exclusive ? 'aggregate' : 'none', holding: true },
    async start(receive, { observer }) {
      if (!stopping.signal.aborted) await (starting ??= begin(counted(receive), createSourceState(observer)))
    },
    stop: ({ graceMs }) => (stopped ??= end(graceMs)),
  }
}

interface Tell {
  /** Messages may come. */
  begins(): void
  works(): void
  failed(error: unknown): void
}
