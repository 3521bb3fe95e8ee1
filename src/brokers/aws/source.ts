import type { Message } from '@aws-sdk/client-sqs'
import { WaybillError, describeError } from '../../errors.ts'
import { createSharedAbort, createSignal, pause, retryPauseMs, within } from '../../pause.ts'
import type { DeliveryAnswer, Receiver, Source } from '../../publishing/source.ts'
import { type SourceState, createSourceState } from '../source-state.ts'
import { meaningOfError } from './answers.ts'
import { toDelivery } from './delivery.ts'
import { type Held, type Hold, createHold } from './hold.ts'
import { sentenceOf } from './outcomes.ts'
import type { Queue } from './queue.ts'

export interface QueueSourceSettings {
  readonly queue: string
  readonly prefetch: number
  readonly visibilitySeconds: number
  readonly waitSeconds: number
}

const mostPerRequest = 10
const longestPauseMs = 10_000

export function createQueueSource(
  name: string,
  settings: QueueSourceSettings,
  open: () => Promise<Queue>,
): Source {
  const { queue: place, prefetch, visibilitySeconds, waitSeconds } = settings
  /** Nothing new is taken any more. */
  const stopping = new AbortController()
  /** Nothing is waited for any more. */
  const ending = createSharedAbort()
  const room = createSignal()
  const answering = new Set<Promise<void>>()
  let starting: Promise<void> | undefined
  let running: Promise<void> | undefined
  let stopped: Promise<void> | undefined
  let queue: Queue | undefined

  async function begin(receive: Receiver, state: SourceState): Promise<void> {
    if (stopping.signal.aborted) return
    queue = await open()
    const hold = createHold(queue, { visibilitySeconds, signal: ending.signal })
    const take = (messages: readonly Message[]) => takeAll(messages, receive, hold)
    try {
      take(await queue.receive(Math.min(mostPerRequest, prefetch), 0, ending.signal))
    } catch (cause) {
      const { meaning } = meaningOfError(cause)
      const error = await toError(cause)
      // What waiting does not mend. Later on it is waited for all the same: the queue was there.
      if (meaning === 'missing' || meaning === 'denied' || meaning === 'credentials') throw error
      if (!stopping.signal.aborted) state.failed(error)
    }
    running = run(queue, take, state)
  }

  async function run(
    { receive }: Queue,
    take: (messages: readonly Message[]) => void,
    state: SourceState,
  ): Promise<void> {
    let failures = 0
    while (!stopping.signal.aborted) {
      const free = prefetch - answering.size
      if (free <= 0) {
        await room.wait(1000)
        continue
      }
      try {
        const messages = await receive(Math.min(mostPerRequest, free), waitSeconds, ending.signal)
        failures = 0
        state.works()
        take(messages)
      } catch (error) {
        if (ending.signal.aborted) return
        state.failed(await toError(error))
        await pause(retryPauseMs(failures++, longestPauseMs), stopping.signal)
      }
    }
  }

  function takeAll(messages: readonly Message[], receive: Receiver, hold: Hold): void {
    for (const message of messages) {
      const held = hold.add(message.ReceiptHandle ?? '')
      // What came while the stop was under way is given back at once.
      const answer = stopping.signal.aborted
        ? Promise.resolve(givenBack)
        : receive(toDelivery(place, message, held.lost.signal))
      const settled = answer.then((given) => settle(held, given, hold))
      answering.add(settled)
      void settled.then(() => {
        answering.delete(settled)
        room.notify()
      })
    }
  }

  async function settle(held: Held, answer: DeliveryAnswer, hold: Hold): Promise<void> {
    if (answer.status === 'done') await hold.remove(held)
    else await hold.giveBack(held, Math.ceil(answer.afterMs / 1000))
  }

  async function toError(cause: unknown): Promise<Error> {
    const { meaning, code } = meaningOfError(cause)
    const region = (await queue?.region().catch(() => undefined)) ?? 'an unknown region'
    const context = { kind: 'queue', place, region, otherwise: 'correct the option `queue`' }
    const text = `${name}: ${sentenceOf(meaning, code, describeError(cause, 300), context)}`
    return new WaybillError('BROKER_UNAVAILABLE', text, { cause })
  }

  async function end(graceMs: number): Promise<void> {
    stopping.abort()
    room.notify()
    const work = async () => {
      await starting?.catch(() => undefined)
      await running
      while (answering.size > 0) await Promise.all(answering)
    }
    await within(work(), graceMs)
    ending.abort()
    queue?.close()
  }

  return {
    name,
    subscription: `sqs:${place}`,
    capabilities: { ordering: place.endsWith('.fifo') ? 'aggregate' : 'none', holding: true },
    start: (receive, { observer }) => (starting ??= begin(receive, createSourceState(observer))),
    stop: ({ graceMs }) => (stopped ??= end(graceMs)),
  }
}

const givenBack: DeliveryAnswer = {
  status: 'again',
  afterMs: 0,
  error: new Error('the source has stopped'),
}
