import { type Aggregate, type Share, aggregateKey } from './aggregate.ts'
import type { Backlog } from './backlog.ts'
import { aggregateRequest, groupBy } from './read-plan.ts'
import type { AggregateRequest, ReadEvent } from './source.ts'
import type { TakeIn } from './take-in.ts'

export interface SingleRequest extends AggregateRequest {
  readonly aggregate: Aggregate
  readonly limit: number
}

/** Reads single aggregates that go on from the table. */
export interface SingleReads {
  /** True when aggregates whose next event goes to this destination can go on. */
  isDue(share: Share): boolean
  /** One whose head failed is asked for its head only. */
  plan(): SingleRequest[]
  /** Takes in what was read. Answers how many events were new. */
  add(requests: readonly SingleRequest[], events: readonly ReadEvent[], now: number): number
}

const maxAtOnce = 200
/** The same of those whose next event must be looked for: its bucket may have many others on the way there. */
const maxSoughtAtOnce = 20
/** So many events of each, if there is room. */
const leastOfEach = 8

export function createSingleReads(
  backlog: Backlog,
  takeIn: TakeIn,
  { perAggregate, isOwed }: { perAggregate: number; isOwed: (share: Share) => boolean },
): SingleReads {
  const { shares } = backlog

  function isDue(share: Share): boolean {
    if (share.resumable.size === 0 || shares.room(share) <= 0) return false
    // By turns with those that were left in the table together, so that neither wait for ever.
    return !(share.arrearsFirst && isOwed(share))
  }

  function planOf(share: Share, most: number): SingleRequest[] {
    const planned: SingleRequest[] = []
    let room = shares.room(share)
    // One that has many events alone may bring them all at once; of many, each a few.
    const each = Math.max(leastOfEach, Math.ceil(room / share.resumable.size))
    for (const aggregate of share.resumable) {
      if (room <= 0 || planned.length === most) break
      const limit = aggregate.failing === null ? Math.min(perAggregate, each, room) : 1
      room -= limit
      planned.push({ aggregate, limit, ...aggregateRequest(aggregate) })
    }
    return planned
  }

  /** Answers how many events were new. */
  function goOn({ aggregate, limit }: SingleRequest, rows: readonly ReadEvent[], now: number): number {
    const cut = rows.find((event) => event.body === null)
    aggregate.stashedFrom = cut?.position ?? (rows.length >= limit ? rows.at(-1)!.position + 1n : null)
    aggregate.passed = 0
    if (rows.length === 0) aggregate.failing = null
    let added = 0
    let isParked = false
    for (const event of rows) {
      if (event === cut || isParked) break
      const taken = takeIn(event, now, { resumed: true })
      if (taken === 'taken') added++
      isParked = taken === 'parked'
    }
    if (isParked) {
      backlog.leaveParked(aggregate)
      // It is worth a look when that event is out.
      aggregate.bucket.arrears?.mix(aggregateKey(aggregate.type, aggregate.id))
    } else if (aggregate.state === 'idle') backlog.advance(aggregate, now)
    return added
  }

  return {
    isDue,
    plan() {
      const planned: SingleRequest[] = []
      for (const share of shares.all) {
        if (!isDue(share)) continue
        const most = share.destination === null ? maxSoughtAtOnce : maxAtOnce
        planned.push(...planOf(share, Math.min(most, maxAtOnce - planned.length)))
        share.arrearsFirst = share.owing > 0
      }
      return planned
    },
    add(requests, events, now) {
      const rows = groupBy(events, ({ bucket, aggregateType, aggregateId }) =>
        backlog.buckets.get(bucket)?.aggregates.get(aggregateKey(aggregateType, aggregateId)),
      )
      let added = 0
      for (const request of requests) {
        // A bucket that was lost or set back meanwhile answers for itself.
        if (request.aggregate.awaits.resumable.delete(request.aggregate))
          added += goOn(request, rows.get(request.aggregate) ?? [], now)
      }
      return added
    },
  }
}
