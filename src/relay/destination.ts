import type { Publisher } from '../publishing/publisher.ts'
import type { MessageFormat } from '../types.ts'
import type { Aggregate, Entry } from './aggregate.ts'
import { type Circuit, createCircuit } from './circuit.ts'
import { type Fifo, createFifo } from './fifo.ts'

type OnChange = (state: 'up' | 'down', details: { error: string; downMs: number }) => void

/** A publisher, and what the relay knows of its other side. */
export interface Destination {
  readonly name: string
  readonly publisher: Publisher
  readonly format: MessageFormat
  readonly circuit: Circuit
  readonly onChange: OnChange
  /** Aggregates whose head goes here; may hold some that no longer do. */
  readonly ready: Fifo<Aggregate>
  /** The same for heads that must be tried with care. */
  readonly suspect: Fifo<Aggregate>
  /** `publish()` calls under way that hold a worker's place. */
  active: number
  /** Calls under way for so long that they gave their place to others: one event that hangs must not hold back all. */
  slow: number
  /** Start of the youngest call that published something, `performance.now()`: the evidence that others get through. */
  lastSuccessStartedAt: number
  /**
   * Events that it answered with a failure since it last took one. It is no outage (it answers), and costs no attempt,
   * but people must know when nothing gets through; `since` is `performance.now()` of the first.
   */
  failing: { readonly events: Set<string>; readonly since: number; error: string; told: boolean } | null
  /** Dead letters of a row of equal refusals are on their way back: nothing goes out, not even a probe, before them. */
  restoring: boolean
  /** Refusals with one and the same answer, in a row. */
  refusals: { answer: string; entries: Entry[] } | null
}

/** A publisher, or a publisher with the format of its messages (default `debezium`). */
export type DestinationInput = Publisher | { publisher: Publisher; format?: MessageFormat }

export function createDestination(
  name: string,
  input: DestinationInput,
  options: { probeMaxMs: number; onChange: OnChange },
): Destination {
  const { publisher, format = 'debezium' } = 'publisher' in input ? input : { publisher: input }
  return {
    name,
    publisher,
    format,
    circuit: createCircuit(options),
    onChange: options.onChange,
    ready: createFifo(),
    suspect: createFifo(),
    active: 0,
    slow: 0,
    lastSuccessStartedAt: -Infinity,
    failing: null,
    restoring: false,
    refusals: null,
  }
}

/** So many different events that failed, and none that got through, are worth telling; or one for so long (ms). */
const failingEvents = 3
const failingForMs = 60_000

/** The destination answered one event with a failure. Told once, as long as nothing gets through. */
export function noteFailure(destination: Destination, eventId: string, error: string, now: number): void {
  const failing = (destination.failing ??= { events: new Set(), since: now, error, told: false })
  failing.error = error
  if (failing.events.size < failingEvents) failing.events.add(eventId)
  if (failing.told || destination.circuit.open) return
  if (failing.events.size < failingEvents && now - failing.since < failingForMs) return
  failing.told = true
  destination.onChange('down', { error: `nothing gets through: ${error}`, downMs: 0 })
}

/** The destination took an event. */
export function noteSuccess(destination: Destination, now: number): void {
  const { failing } = destination
  destination.failing = null
  if (failing?.told === true)
    destination.onChange('up', { error: failing.error, downMs: now - failing.since })
}

/** Calls that may be under way at once now. */
export function allowedCalls({ circuit, restoring }: Destination, now: number, workers: number): number {
  return restoring ? 0 : circuit.allowed(now, workers)
}
