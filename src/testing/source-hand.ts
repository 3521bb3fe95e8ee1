import assert from 'node:assert/strict'
import { decodeDelivery } from '../publishing/decoder.ts'
import type { Message } from '../publishing/publisher.ts'
import type { ReceivedEvent } from '../publishing/received-event.ts'
import type { Delivery, DeliveryAnswer, Source } from '../publishing/source.ts'
import type { SourceBench } from './source-bench.ts'

/** One delivery in the hand of a test. */
export interface Arrival {
  readonly delivery: Delivery
  readonly event: ReceivedEvent
}

/** How a test answers; a promise keeps the source waiting. */
export type Answering = (arrival: Arrival) => DeliveryAnswer | Promise<DeliveryAnswer>

export interface SourceHand {
  readonly source: Source
  /** Everything that was handed over, in order. */
  readonly arrivals: readonly Arrival[]
  /** What the observer was told. */
  readonly told: readonly ('down' | 'up')[]
  /** Waits until each of these has arrived at least `times` times. */
  arrived(messages: readonly Message[], times?: number): Promise<void>
  of(message: Message): readonly Arrival[]
  stop(): Promise<void>
}

export const done: DeliveryAnswer = Object.freeze({ status: 'done' })
export const again = (afterMs = 0): DeliveryAnswer => ({
  status: 'again',
  afterMs,
  error: new Error('the test says so'),
})

/** Starts a source whose deliveries are answered by `answer`. */
export async function takeInHand(bench: SourceBench, answer: Answering = () => done): Promise<SourceHand> {
  const source = await bench.create()
  const arrivals: Arrival[] = []
  const told: ('down' | 'up')[] = []
  await source.start(
    async (delivery) => {
      const arrival = { delivery, event: decodeDelivery(delivery) }
      arrivals.push(arrival)
      return answer(arrival)
    },
    { observer: { down: () => void told.push('down'), up: () => void told.push('up') } },
  )
  const of = ({ eventId }: Message) => arrivals.filter(({ event }) => event.id === eventId)
  return {
    source,
    arrivals,
    told,
    of,
    arrived: (messages, times = 1) =>
      until(bench, 'that the messages arrive', () =>
        messages.every((message) => of(message).length >= times),
      ),
    stop: () => source.stop({ graceMs: bench.patienceMs ?? 20_000 }),
  }
}

export async function until(bench: SourceBench, what: string, holds: () => boolean): Promise<void> {
  const deadline = performance.now() + (bench.patienceMs ?? 20_000)
  while (!holds()) {
    if (performance.now() > deadline) throw new assert.AssertionError({ message: `waited in vain: ${what}` })
    await new Promise((resolve) => setTimeout(resolve, 10))
  }
}

/** Runs a check with a source in hand, which is stopped whatever happens. */
export async function withHand(
  bench: SourceBench,
  answer: Answering,
  check: (hand: SourceHand) => Promise<void>,
): Promise<void> {
  const hand = await takeInHand(bench, answer)
  try {
    await check(hand)
  } finally {
    await hand.stop()
  }
}

/** The ids of one aggregate, in the order of their first arrival. */
export function firstArrivals({ arrivals }: SourceHand, aggregateId: string): string[] {
  const ids = arrivals.filter(({ event }) => event.aggregateId === aggregateId).map(({ event }) => event.id)
  return [...new Set(ids)]
}
