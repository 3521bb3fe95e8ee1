import type { OwnedBucket, Share } from './aggregate.ts'
import type { Backlog } from './backlog.ts'
import { type PlannedRead, eachBucket, planSlices, readableBuckets } from './read-plan.ts'
import type { ReadEvent } from './source.ts'
import type { TakeIn } from './take-in.ts'

/** A look for what is owed to one destination. */
export interface ArrearsPlan {
  readonly share: Share
  readonly requests: readonly PlannedRead[]
}

/** Reads what was left in the table since its destination had no room. */
export interface ArrearsReads {
  /** True when something is owed to this destination that can be read now, if there is room. */
  isOwed(share: Share): boolean
  /** True when there is room for it. */
  isDue(share: Share): boolean
  /** What to read for one destination, another one each time. */
  plan(): ArrearsPlan | undefined
  /** Takes in what was read. Answers how many events were new. */
  add(plan: ArrearsPlan, events: readonly ReadEvent[], now: number): number
}

export function createArrearsReads(backlog: Backlog, takeIn: TakeIn, capacity: number): ArrearsReads {
  const { buckets, shares } = backlog
  let turn = 0

  function owing(share: Share): { bucket: OwnedBucket; from: bigint }[] {
    if (share.owing === 0) return []
    return readableBuckets(buckets).flatMap((bucket) => {
      const from = bucket.arrears?.from(share)
      return from === undefined ? [] : [{ bucket, from }]
    })
  }

  const isOwed = (share: Share) => owing(share).length > 0
  const isDue = (share: Share) =>
    share.owing > 0 && !backlog.isRestless && shares.isOpen(share) && isOwed(share)

  /** Answers how many events were new. */
  function takeAll(
    share: Share,
    bucket: OwnedBucket,
    request: PlannedRead,
    rows: readonly ReadEvent[],
    now: number,
  ): number {
    const { floor, arrears } = bucket
    if (arrears === null) return 0
    const reading = { owedTo: share, above: request.floor > floor }
    let last = request.floor
    let isFull = false
    let added = 0
    for (const event of rows) {
      const taken = takeIn(event, now, reading)
      isFull = taken === 'full'
      if (isFull) break
      if (taken === 'taken') added++
      else share.passed++
      last = event.position
    }
    if (!isFull && rows.length < request.limit) {
      arrears.settle(share)
      return added
    }
    // From the floor again, as long as that gets on: what is read from above it cannot be taken in directly.
    const stay = last > floor && !reading.above && (isFull || added > 0)
    arrears.advance(share, stay ? floor : last)
    return added
  }

  return {
    isOwed,
    isDue,
    plan() {
      for (let i = 0; i < shares.all.length; i++) {
        const share = shares.all[turn++ % shares.all.length]!
        if (!isDue(share)) continue
        // Where rows of others lie between, more must be read for as many events.
        const rows = shares.room(share) + Math.min(2 * share.passed, capacity)
        return { share, requests: planSlices(owing(share), turn, rows) }
      }
      return undefined
    },
    add({ share, requests }, events, now) {
      let added = 0
      share.arrearsFirst = false
      share.passed = 0
      eachBucket(buckets, requests, events, (bucket, request, rows) => {
        added += takeAll(share, bucket, request, rows, now)
        if (bucket.arrears?.isEmpty === true) bucket.arrears = null
      })
      return added
    },
  }
}
