import type { Aggregate, OwnedBucket } from './aggregate.ts'
import type { AggregateRequest, BucketRequest, ReadEvent } from './source.ts'

export interface PlannedRead extends BucketRequest {
  readonly generation: number
}

/** What a read gave of one bucket. */
export interface Returned {
  rows: number
  /** Events that are in memory now and were not before. */
  added: number
  /** Position of the last row that can be used. */
  last: bigint
  /** What follows was too much for one read. */
  cut: boolean
}

/** New rows to ask of a bucket that gave nothing: with 64 buckets every one of them in each read. */
export const leastAppetite = 8
/** Aggregates of which a read leaves out the rows: enough to matter, few enough to compare with each row. */
const maxSkipped = 50
const skipAfterPassed = 32
/** Rows of one bucket in one read while some are passed: the other buckets, which are asked with it, wait for them. */
const mostWhilePassing = 256

/**
 * What to read of these buckets for at most `room` new events; `turn` makes each of them the first in turn. `passing`:
 * events of some destination stay in the table.
 */
export function planReads(
  owned: readonly OwnedBucket[],
  turn: number,
  { room, passing }: { room: number; passing: boolean },
): PlannedRead[] {
  const requests: PlannedRead[] = []
  const most = passing ? mostWhilePassing : Infinity
  let left = room
  for (let i = 0; i < owned.length && left > 0; i++) {
    const bucket = owned[(turn + i) % owned.length]!
    const fresh = Math.min(bucket.appetite, left, most)
    const from = bucket.next ?? bucket.floor
    left -= fresh
    requests.push({
      bucket: bucket.bucket,
      generation: bucket.generation,
      floor: from,
      // What is loaded already may come again, as far as it lies above.
      limit: fresh + (passing && from >= bucket.highest ? 0 : bucket.loaded),
      payloads: !bucket.passing,
    })
  }
  return requests
}

/** What to read of these buckets, each from a position of its own, for about so many rows altogether. */
export function planSlices(
  starts: readonly { bucket: OwnedBucket; from: bigint }[],
  turn: number,
  rows: number,
): PlannedRead[] {
  const limit = Math.max(leastAppetite, Math.ceil(rows / starts.length))
  const count = Math.min(starts.length, Math.ceil(rows / limit))
  return Array.from({ length: count }, (_, i) => {
    const { bucket, from } = starts[(turn + i) % starts.length]!
    // From the floor on, what is loaded already may come again.
    const again = from >= bucket.floor ? bucket.loaded : 0
    return {
      ...{ bucket: bucket.bucket, generation: bucket.generation },
      ...{ floor: from, limit: limit + again, payloads: true },
    }
  })
}

/** Aggregates of which rows were met and left again and again: reads leave them out. */
export function planSkips(buckets: Iterable<OwnedBucket>): AggregateRequest[] {
  const skip: AggregateRequest[] = []
  for (const bucket of buckets) {
    for (const aggregate of bucket.aggregates.values()) {
      if (skip.length === maxSkipped) return skip
      if (aggregate.stashedFrom !== null && aggregate.passed >= skipAfterPassed)
        skip.push(aggregateRequest(aggregate))
    }
  }
  return skip
}

/** Positions that were told before a read. */
export interface Marks {
  /** Nothing more can come at or below. */
  readonly decided: bigint
  /** Nothing more can come at or below, but from transactions that have been open for long. */
  readonly recent: bigint
}

/**
 * Moves a bucket's floor up after a read: never beyond what is `decided` (a lower position may still commit), and
 * not beyond the last row when there were more.
 */
export function moveFloor(
  bucket: OwnedBucket,
  request: PlannedRead,
  returned: Returned,
  { decided, recent }: Marks,
  capacity: number,
): void {
  const { rows, added, last, cut } = returned
  const full = isFull(returned, request)
  const fromFloor = request.floor <= bucket.floor
  const floor = full && last < decided ? last : decided
  if (fromFloor && floor > bucket.floor) bucket.floor = floor
  // A whole read of what is known, or must stay in the table: what is new lies behind that.
  if (full) bucket.next = added === 0 || !fromFloor ? last : null
  else bucket.next = !fromFloor && recent > bucket.floor ? recent : null
  bucket.appetite = full
    ? Math.min(Math.ceil(capacity / 2), bucket.appetite * 2)
    : Math.max(leastAppetite, Math.min(bucket.appetite, rows * 2))
  bucket.passing = full && added === 0 && !cut
  if (rows === 0 && fromFloor && bucket.loaded === 0 && bucket.arrears === null) bucket.suspects = 0
}

/** True when there may be more. */
export function isFull({ cut, rows }: Returned, { limit }: PlannedRead): boolean {
  return cut || rows >= limit
}

export function aggregateRequest(aggregate: Aggregate): AggregateRequest {
  return {
    bucket: aggregate.bucket.bucket,
    aggregateType: aggregate.type,
    aggregateId: aggregate.id,
    from: aggregate.stashedFrom ?? 0n,
  }
}

/** Buckets of which something may be read. */
export function readableBuckets(buckets: ReadonlyMap<number, OwnedBucket>): OwnedBucket[] {
  return [...buckets.values()].filter((bucket) => bucket.opened && !bucket.draining)
}

/**
 * The rows of each bucket that was asked, in order. Of a bucket that was set back to its start meanwhile, earlier
 * events may be pending below where it was read: nothing may go before them, and its rows are dropped.
 */
export function eachBucket(
  buckets: ReadonlyMap<number, OwnedBucket>,
  requests: readonly PlannedRead[],
  events: readonly ReadEvent[],
  use: (bucket: OwnedBucket, request: PlannedRead, rows: readonly ReadEvent[]) => void,
): void {
  const rows = groupBy(events, (event) => event.bucket)
  for (const request of requests) {
    const bucket = buckets.get(request.bucket)
    if (bucket?.generation !== request.generation) continue
    const found = rows.get(request.bucket) ?? []
    for (let i = 1; i < found.length; i++) {
      if (found[i]!.position < found[i - 1]!.position)
        throw new Error('the source gave the events of a bucket out of order')
    }
    use(bucket, request, found)
  }
}

/** Items by what they belong to, in their order; those that belong to nothing are left out. */
export function groupBy<Item, Key>(
  items: readonly Item[],
  keyOf: (item: Item) => Key | undefined,
): Map<Key, Item[]> {
  const groups = new Map<Key, Item[]>()
  for (const item of items) {
    const key = keyOf(item)
    if (key === undefined) continue
    const group = groups.get(key)
    if (group === undefined) groups.set(key, [item])
    else group.push(item)
  }
  return groups
}
