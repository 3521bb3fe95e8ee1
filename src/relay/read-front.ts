import type { OwnedBucket } from './aggregate.ts'
import type { Backlog } from './backlog.ts'
import {
  type Marks,
  type PlannedRead,
  type Returned,
  eachBucket,
  isFull,
  moveFloor,
  planReads,
  readableBuckets,
} from './read-plan.ts'
import type { ReadEvent } from './source.ts'
import type { TakeIn } from './take-in.ts'

/** Reads what is new: each bucket from where it was read up to. */
export interface FrontReads {
  /** What to read next for at most `room` new events. */
  plan(room: number): readonly PlannedRead[]
  /**
   * Takes in what was read. The marks must be from before the read. Answers how many events were new, and whether a
   * round ends: one read asks no more buckets than there is room, so it takes some of them until each was read to its
   * end.
   */
  add(
    requests: readonly PlannedRead[],
    events: readonly ReadEvent[],
    marks: Marks,
    now: number,
  ): { added: number; complete: boolean }
  /** Something may have come between the floor of a bucket and where it is read on. */
  backToFloor(): void
}

export function createFrontReads(backlog: Backlog, takeIn: TakeIn, capacity: number): FrontReads {
  const { buckets } = backlog
  // While these go out the next come in. As much as there is room would come all at once, and nothing for as long.
  const mostPerRead = Math.ceil(capacity / 4)
  let turn = 0
  let round = 1

  function takeAll(
    bucket: OwnedBucket,
    request: PlannedRead,
    rows: readonly ReadEvent[],
    now: number,
  ): Returned {
    const returned: Returned = { rows: 0, added: 0, last: request.floor, cut: false }
    const reading = { above: request.floor > bucket.floor }
    for (const event of rows) {
      const taken = takeIn(event, now, reading)
      returned.cut = taken === 'full'
      if (returned.cut) break
      returned.rows++
      returned.last = event.position
      if (taken === 'taken') returned.added++
    }
    return returned
  }

  return {
    plan(room) {
      const requests = planReads(readableBuckets(buckets), turn, {
        room: Math.min(room, mostPerRead),
        passing: backlog.shares.anyClosed,
      })
      turn += requests.length
      return requests
    },
    add(requests, events, marks, now) {
      let added = 0
      eachBucket(buckets, requests, events, (bucket, request, rows) => {
        const returned = takeAll(bucket, request, rows, now)
        moveFloor(bucket, request, returned, marks, capacity)
        added += returned.added
        if (!isFull(returned, request)) bucket.readIn = round
      })
      const complete = readableBuckets(buckets).every(({ readIn }) => readIn === round)
      if (complete) round++
      return { added, complete }
    },
    backToFloor() {
      for (const bucket of buckets.values()) bucket.next = null
      round++
    },
  }
}
