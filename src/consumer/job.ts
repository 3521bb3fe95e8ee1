import type { ReceivedEvent } from '../publishing/received-event.ts'
import type { Delivery } from '../publishing/source.ts'

/** The revisions of one aggregate that are to be applied to a projection again. */
export interface Rebuild {
  readonly projection: string
  readonly events: readonly ReceivedEvent[]
}

/** An event on its way through the consumer. */
export interface Job {
  readonly event: ReceivedEvent
  readonly delivery: Delivery
  /** It was kept in the database (a dead letter put back, a parked event) and comes from no source. */
  readonly kept: boolean
  /** For a rebuild: what the source has. Then `event` is the newest of it, under the id of the message. */
  readonly rebuild: Rebuild | undefined
  /** Whether failures are waited out here. */
  readonly holding: boolean
  /** `performance.now()` */
  readonly receivedAt: number
  /** Counted failures, as far as they are known. */
  attempts: number
  /** Failures that do not count, in a row: transactions in each other's way, sessions that were lost. */
  conflicts: number
  losses: number
  /** A try is on record that has no end yet. */
  noted: boolean
  /** To be tried with no other event beside it. */
  alone: boolean
}

export interface JobOptions {
  kept?: boolean
  holding?: boolean
  attempts?: number
  rebuild?: Rebuild
}

export function createJob(
  event: ReceivedEvent,
  delivery: Delivery,
  { kept = false, holding = true, attempts = 0, rebuild }: JobOptions = {},
): Job {
  const receivedAt = performance.now()
  const none = { conflicts: 0, losses: 0, noted: false, alone: false }
  return { event, delivery, kept, rebuild, holding, receivedAt, attempts, ...none }
}
