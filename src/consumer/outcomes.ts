import type { ReceivedEvent } from '../publishing/received-event.ts'

/** What the projections of one handler did with its event. */
export interface EventOutcomes {
  /** A projection took the revision, and its writes are in the transaction. */
  applied: number
  /** Why a projection did not take it: there already, or older. */
  readonly stale: string[]
  /** A projection noted the revision and its writes then failed: the transaction must not commit. */
  failed: unknown
  hasFailed: boolean
  /** The revisions that were applied by projections without gaps: what waits for them may go on. */
  readonly filled: { readonly projection: string; readonly revision: bigint }[]
}

const known = new WeakMap<ReceivedEvent, EventOutcomes>()

/** The handler need not pass on what a projection answered, so it is kept beside the event. */
export function outcomesOf(event: ReceivedEvent): EventOutcomes {
  let outcomes = known.get(event)
  if (outcomes === undefined) {
    outcomes = { applied: 0, stale: [], failed: undefined, hasFailed: false, filled: [] }
    known.set(event, outcomes)
  }
  return outcomes
}

/** A new try begins with a new page. */
export function forgetOutcomes(event: ReceivedEvent): void {
  known.delete(event)
}

/** Thrown out of a handler when a revision has come too early: everything the handler did is taken back. */
export class EventParked extends Error {
  override readonly name = 'EventParked'
  readonly projection: string
  readonly expected: bigint

  constructor(projection: string, revision: bigint, expected: bigint) {
    super(
      `revision ${revision} has come before ${expected}: it waits in the projection ${JSON.stringify(projection)}`,
    )
    this.projection = projection
    this.expected = expected
  }
}
