import type { Publisher } from '../publishing/publisher.ts'
import type { MessageFormat } from '../types.ts'
import type { Aggregate, Entry, OwnedBucket } from './aggregate.ts'
import { type Circuit, createCircuit } from './circuit.ts'
import { type Fifo, createFifo } from './fifo.ts'

/** A publisher, and what the relay knows of its other side. */
export interface Destination {
  readonly name: string
  readonly publisher: Publisher
  readonly format: MessageFormat
  readonly circuit: Circuit
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
  /** Refusals with one and the same answer, in a row. */
  refusals: { answer: string; entries: Entry[] } | null
  /** Buckets with aggregates whose events were dropped from memory while this destination is away. */
  readonly awayBuckets: Set<OwnedBucket>
}

/** A publisher, or a publisher with the format of its messages (default `debezium`). */
export type DestinationInput = Publisher | { publisher: Publisher; format?: MessageFormat }

export function createDestination(
  name: string,
  input: DestinationInput,
  options: {
    probeMaxMs: number
    onChange: (state: 'up' | 'down', details: { error: string; downMs: number }) => void
  },
): Destination {
  const { publisher, format = 'debezium' } = 'publisher' in input ? input : { publisher: input }
  return {
    name,
    publisher,
    format,
    circuit: createCircuit(options),
    ready: createFifo(),
    suspect: createFifo(),
    active: 0,
    slow: 0,
    lastSuccessStartedAt: -Infinity,
    refusals: null,
    awayBuckets: new Set(),
  }
}
