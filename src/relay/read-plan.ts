import type { Aggregate, OwnedBucket } from './aggregate.ts'
import type { AggregateRequest, BucketRequest } from './source.ts'

export interface PlannedRead extends BucketRequest {
  readonly generation: number
}

export interface ReadPlan {
  readonly requests: readonly PlannedRead[]
  /** Aggregates of which the rows are left out. */
  readonly skip: readonly AggregateRequest[]
  /** False when there was not room enough to ask every bucket. */
  readonly complete: boolean
}

export interface ResumeRequest extends AggregateRequest {
  readonly aggregate: Aggregate
  readonly limit: number
}

/** What a read gave of one bucket. */
export interface Returned {
  rows: number
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
const maxResumedAtOnce = 200

/** What to read of these buckets for at most `room` new events; `turn` makes each of them the first in turn. */
export function planReads(owned: readonly OwnedBucket[], turn: number, room: number): ReadPlan {
  const requests: PlannedRead[] = []
  const skip: AggregateRequest[] = []
  let left = room
  for (let i = 0; i < owned.length && left > 0; i++) {
    const bucket = owned[(turn + i) % owned.length]!
    const fresh = Math.min(bucket.appetite, left)
    left -= fresh
    requests.push({
      bucket: bucket.bucket,
      generation: bucket.generation,
      floor: bucket.floor,
      // What is loaded already may come again, as far as it lies above the floor.
      limit: fresh + bucket.loaded,
    })
    for (const aggregate of bucket.aggregates.values()) {
      if (skip.length === maxSkipped) break
      if (aggregate.stashedFrom !== null && aggregate.passed >= skipAfterPassed)
        skip.push(aggregateRequest(aggregate))
    }
  }
  return { requests, skip, complete: requests.length === owned.length }
}

/**
 * Moves a bucket's floor up after a read: never beyond what is `decided` (a lower position may still commit), and
 * not beyond the last row when there were more.
 */
export function moveFloor(
  bucket: OwnedBucket,
  request: PlannedRead,
  returned: Returned | undefined,
  decided: bigint,
  capacity: number,
): void {
  const rows = returned?.rows ?? 0
  const full = returned !== undefined && (returned.cut || rows >= request.limit)
  const floor = full && returned.last < decided ? returned.last : decided
  if (floor > bucket.floor) bucket.floor = floor
  bucket.appetite = full
    ? Math.min(Math.ceil(capacity / 2), bucket.appetite * 2)
    : Math.max(leastAppetite, Math.min(bucket.appetite, rows * 2))
  if (rows === 0 && bucket.loaded === 0) bucket.suspects = 0
}

/** Which aggregates to go on with from the table; one whose head failed is asked for its head only. */
export function planResumes(resumable: Iterable<Aggregate>, perAggregate: number): ResumeRequest[] {
  const planned: ResumeRequest[] = []
  for (const aggregate of resumable) {
    if (planned.length === maxResumedAtOnce) break
    const limit = aggregate.failing === null ? perAggregate : 1
    planned.push({ aggregate, limit, ...aggregateRequest(aggregate) })
  }
  return planned
}

function aggregateRequest(aggregate: Aggregate): AggregateRequest {
  return {
    bucket: aggregate.bucket.bucket,
    aggregateType: aggregate.type,
    aggregateId: aggregate.id,
    from: aggregate.stashedFrom ?? 0n,
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
