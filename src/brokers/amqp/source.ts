import type { AsyncMessage } from 'rabbitmq-client'
import { WaybillError, describeError, hasCode } from '../../errors.ts'
import { createSharedAbort, pause, retryPauseMs, within } from '../../pause.ts'
import type { Receiver, Source } from '../../publishing/source.ts'
import { whenAborted } from '../abort.ts'
import { type SourceState, createSourceState } from '../source-state.ts'
import { frameBytesWanted } from './connection-options.ts'
import { type Consuming, type ConsumingOptions, openConsuming } from './consuming.ts'
import { toDelivery } from './delivery.ts'
import { isRefusal, isTaken } from './exclusive.ts'
import type { ConnectionClass } from './session.ts'

export interface QueueSourceOptions {
  readonly name: string
  readonly queue: string
  readonly readers: 'exclusive' | 'single-active' | 'shared'
  readonly prefetch: number
  /** Host and port, for messages. */
  readonly where: string
  readonly vhost: string
  readonly optionsFor: (frameBytes: number) => Record<string, unknown>
  readonly open: () => Promise<ConnectionClass>
}

const longestPauseMs = 10_000
/** One that stands by looks so often whether the queue is free; the broker notes each look in its log. */
const standByMs = 5_000

export function createQueueSource(options: QueueSourceOptions): Source {
  const { name, queue, readers, prefetch, where, optionsFor } = options
  /** Nothing new is taken any more. */
  const stopping = createSharedAbort()
  const answering = new Set<Promise<void>>()
  let starting: Promise<void> | undefined
  let running: Promise<void> | undefined
  let stopped: Promise<void> | undefined
  let current: Consuming | undefined

  async function begin(receive: Receiver, state: SourceState): Promise<void> {
    if (stopping.signal.aborted) return
    const Connection = await options.open()
    const connect = () =>
      openConsuming(
        { Connection, optionsFor, frameBytes: frameBytesWanted, signal: stopping.signal },
        consuming,
      )
    const consuming: ConsumingOptions = {
      ...{ queue, prefetch, readers },
      deliver: (message, from) => take(message, from, receive),
    }
    try {
      current = await connect()
    } catch (cause) {
      // What waiting does not mend. Later on it is waited for all the same: the queue was there.
      const refused = isRefusal(cause) && !isTaken(cause)
      if (refused || hasCode(cause, 'CONFIGURATION_INVALID')) throw toError(cause)
      if (!stopping.signal.aborted) state.failed(toError(cause))
    }
    running = run(connect, state)
  }

  async function run(connect: () => Promise<Consuming>, state: SourceState): Promise<void> {
    for (let failures = 0; !stopping.signal.aborted;) {
      try {
        current ??= await connect()
        failures = 0
        state.works()
        const over = whenAborted(current.lost, stopping.signal, current.refused.signal)
        await over.promise
        over.release()
        if (stopping.signal.aborted) return
        const { lost } = current
        const wasLost = lost.aborted
        if (!wasLost) await returnRefused(current)
        if (stopping.signal.aborted) return
        current = undefined
        if (wasLost) throw lost.reason
      } catch (error) {
        if (stopping.signal.aborted) return
        state.failed(toError(error))
        const ms = isTaken(error) ? standByMs : retryPauseMs(failures++, longestPauseMs)
        await pause(ms, stopping.signal)
      }
    }
  }

  /**
   * A message alone would come back behind those that were handed over after it, of which some are of its aggregate. So
   * nothing new is taken, all others are answered, and the broker puts back the rest together, in order.
   */
  async function returnRefused(from: Consuming): Promise<void> {
    await from.quiet()
    while (answering.size > 0 && !stopping.signal.aborted) await Promise.all(answering)
    if (!stopping.signal.aborted) await from.close()
  }

  function take(message: AsyncMessage, from: Consuming, receive: Receiver): void {
    if (stopping.signal.aborted) return
    const settled = receive(toDelivery(queue, message, from.lost)).then(async (answer) => {
      if (answer.status === 'done') return from.acknowledge(message)
      await pause(answer.afterMs, stopping.signal, from.lost)
      if (readers === 'shared') from.requeue(message)
      else from.refused.abort()
    })
    answering.add(settled)
    void settled.then(() => answering.delete(settled))
  }

  function toError(cause: unknown): Error {
    const said = describeError(cause, 300)
    const text = isTaken(cause)
      ? `${name}: another process reads the queue ${show(queue)} at ${where}, this one stands by (${said}); if none ` +
        'does, the queue has x-single-active-consumer: set readers to "single-active"'
      : `${name}: the queue ${show(queue)} at ${where} cannot be read: ${said}`
    const code = hasCode(cause, 'CONFIGURATION_INVALID') ? cause.code : 'BROKER_UNAVAILABLE'
    return new WaybillError(code, text, { cause })
  }

  async function end(graceMs: number): Promise<void> {
    stopping.abort()
    const work = async () => {
      await starting?.catch(() => undefined)
      await running
      await current?.quiet()
      while (answering.size > 0) await Promise.all(answering)
    }
    await within(work(), graceMs)
    await current?.close()
  }

  return {
    name,
    subscription: `rabbitmq:${options.vhost}/${queue}`,
    capabilities: { ordering: readers === 'shared' ? 'none' : 'aggregate', holding: true },
    start: (receive, { observer }) => (starting ??= begin(receive, createSourceState(observer))),
    stop: ({ graceMs }) => (stopped ??= end(graceMs)),
  }
}

function show(text: string): string {
  return JSON.stringify(text.slice(0, 80))
}
