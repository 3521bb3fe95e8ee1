import type { OwnedBucket } from './aggregate.ts'
import type { Backlog } from './backlog.ts'
import { type PlannedRead, eachBucket, planSlices, readableBuckets } from './read-plan.ts'
import type { ReadEvent } from './source.ts'
import type { TakeIn } from './take-in.ts'

/** Reads every bucket from its start again, beside all else: the net below the low-water marks. */
export interface SweepReads {
  begin(): void
  readonly isUnderWay: boolean
  plan(): PlannedRead[]
  /** Takes in what was missed. Answers how many events that were. */
  add(requests: readonly PlannedRead[], events: readonly ReadEvent[], now: number): number
}

export function createSweepReads(backlog: Backlog, takeIn: TakeIn, capacity: number): SweepReads {
  const { buckets } = backlog
  let turn = 0
  /** Asked at each look: most of the time there is none. */
  let hasBegun = false

  const swept = () =>
    readableBuckets(buckets).flatMap((bucket) =>
      bucket.sweep === null ? [] : [{ bucket, from: bucket.sweep.from }],
    )

  function takeAll(
    bucket: OwnedBucket,
    request: PlannedRead,
    rows: readonly ReadEvent[],
    now: number,
  ): number {
    const { sweep } = bucket
    if (sweep === null) return 0
    let added = 0
    for (const event of rows) {
      if (event.position > sweep.until) break
      const taken = takeIn(event, now)
      if (taken === 'full') return added
      sweep.from = event.position
      if (taken === 'taken') added++
    }
    if (rows.length < request.limit || rows.at(-1)!.position > sweep.until) bucket.sweep = null
    return added
  }

  return {
    begin() {
      hasBegun = true
      for (const bucket of readableBuckets(buckets)) bucket.sweep ??= { from: 0n, until: bucket.floor }
    },
    get isUnderWay() {
      return hasBegun && swept().length > 0
    },
    plan() {
      if (!hasBegun) return []
      const starts = swept()
      hasBegun = starts.length > 0
      return hasBegun ? planSlices(starts, turn++, capacity) : []
    },
    add(requests, events, now) {
      let added = 0
      eachBucket(buckets, requests, events, (bucket, request, rows) => {
        added += takeAll(bucket, request, rows, now)
      })
      return added
    },
  }
}
