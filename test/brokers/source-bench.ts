import { afterEach } from 'vitest'
import type { Message, Publisher } from '../../src/publishing/publisher.ts'
import type { Delivery, DeliveryAnswer, Source } from '../../src/publishing/source.ts'

export const done: DeliveryAnswer = { status: 'done' }

/** A source at work, with what it handed over and told. */
export interface Reading {
  readonly source: Source
  readonly deliveries: Delivery[]
  readonly told: ('down' | 'up')[]
  /** What `down` was told with. */
  readonly errors: Error[]
  /** Resolves when so many have been handed over. */
  waitFor(count: number): Promise<readonly Delivery[]>
  stop(): Promise<void>
}

const readings: Reading[] = []
afterEach(async () => {
  await Promise.all(readings.splice(0).map((reading) => reading.stop()))
})

export const bodyOf = ({ body }: Delivery): string => Buffer.from(body as string).toString('utf8')

/** Starts a source, which is stopped after the test. */
export async function read(
  source: Source,
  answer: (delivery: Delivery) => DeliveryAnswer | Promise<DeliveryAnswer> = () => done,
): Promise<Reading> {
  const waiting = new Set<() => void>()
  const reading: Reading = {
    source,
    deliveries: [],
    told: [],
    errors: [],
    async waitFor(count) {
      while (reading.deliveries.length < count) await new Promise<void>((resolve) => waiting.add(resolve))
      return reading.deliveries
    },
    stop: () => source.stop({ graceMs: 5_000 }),
  }
  readings.push(reading)
  await source.start(
    async (delivery) => {
      reading.deliveries.push(delivery)
      for (const wake of waiting) wake()
      waiting.clear()
      return answer(delivery)
    },
    {
      observer: {
        down(error) {
          reading.told.push('down')
          reading.errors.push(error)
        },
        up: () => void reading.told.push('up'),
      },
    },
  )
  return reading
}

/** A promise and what resolves it. */
export function held<T = void>(): { promise: Promise<T>; release: (value: T) => void } {
  let release!: (value: T) => void
  const promise = new Promise<T>((resolve) => (release = resolve))
  return { promise, release }
}

/** Sends as a relay does: one event of each aggregate in a call, the next one when that is published. */
export async function sendAll(publisher: Publisher, messages: readonly Message[]): Promise<void> {
  let left = [...messages]
  while (left.length > 0) {
    const heads = left.filter(
      ({ aggregateId }, index) => left.findIndex((other) => other.aggregateId === aggregateId) === index,
    )
    const results = await publisher.publish(heads, { signal: AbortSignal.timeout(10_000) }).catch(() => [])
    const out = new Set(heads.filter((_, index) => results[index]?.status === 'published'))
    left = left.filter((message) => !out.has(message))
    // The queue may be away for a moment, or its connection was cut.
    if (out.size === 0) await new Promise((resolve) => setTimeout(resolve, 50))
  }
}
