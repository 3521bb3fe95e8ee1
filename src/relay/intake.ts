import type { Backlog } from './backlog.ts'
import { type ArrearsReads, createArrearsReads } from './read-arrears.ts'
import { type FrontReads, createFrontReads } from './read-front.ts'
import { type SingleReads, createSingleReads } from './read-singles.ts'
import { type SweepReads, createSweepReads } from './read-sweep.ts'
import { type TakeInOptions, createTakeIn } from './take-in.ts'

export interface IntakeOptions extends TakeInOptions {
  backlog: Backlog
  /** Most events in memory for one destination, as for the backlog. */
  capacity: number
}

/** The four ways in which events come into memory, and whether there is room for them. */
export interface Intake {
  readonly front: FrontReads
  readonly arrears: ArrearsReads
  readonly singles: SingleReads
  readonly sweep: SweepReads
  /** How many new events may be read; 0: not now. With `passing` nobody waits for a destination without room. */
  readable(passing: boolean, now: number): number
  /** True when some destination has room for new events, whether or not others have. */
  readonly mayPass: boolean
  /** True when something that was left in the table can be brought in. */
  readonly isDue: boolean
  /** True when events of this destination wait in the table. */
  isBehind(destination: string): boolean
}

/** Aggregates that are remembered as left in the table, at which nothing new is read. */
const maxParked = 1_000_000
const purgeEveryMs = 1_000

/** Decides what to read next, and which of it comes into memory. */
export function createIntake(options: IntakeOptions): Intake {
  const { backlog, capacity, perAggregate } = options
  const { shares } = backlog
  const takeIn = createTakeIn(options)
  const front = createFrontReads(backlog, takeIn, capacity)
  const arrears = createArrearsReads(backlog, takeIn, capacity)
  const singles = createSingleReads(backlog, takeIn, { perAggregate, isOwed: arrears.isOwed })
  const sweep = createSweepReads(backlog, takeIn, capacity)
  let purgedAt = -Infinity

  function isTooMuch(now: number): boolean {
    if (backlog.isRestless) return true
    if (backlog.parked < maxParked) return false
    if (now - purgedAt < purgeEveryMs) return true
    purgedAt = now
    for (const bucket of backlog.buckets.values()) bucket.arrears?.purge()
    return backlog.parked >= maxParked
  }

  return {
    ...{ front, arrears, singles, sweep },
    readable: (passing, now) => (isTooMuch(now) ? 0 : shares.readable(passing)),
    get mayPass() {
      return shares.anyOpen
    },
    get isDue() {
      return shares.all.some((share) => singles.isDue(share) || arrears.isDue(share))
    },
    isBehind(destination) {
      const share = shares.of(destination)
      return share.owing > 0 || share.resumable.size > 0
    },
  }
}
