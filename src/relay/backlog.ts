import {
  type Aggregate,
  type Entry,
  type OwnedBucket,
  type Prepared,
  type TakenBucket,
  aggregateKey,
  createBucket,
  insertInOrder,
  nextGeneration,
} from './aggregate.ts'
import {
  type PlannedRead,
  type ReadPlan,
  type ResumeRequest,
  type Returned,
  groupBy,
  leastAppetite,
  moveFloor,
  planReads,
  planResumes,
} from './read-plan.ts'
import { createSleepers } from './sleepers.ts'
import type { AggregateKey, ReadEvent, SourceEvent } from './source.ts'

export interface BacklogOptions {
  /** Most events in memory. */
  capacity: number
  /** Most events of one aggregate in memory; the others stay in the table until these are out. */
  perAggregate: number
  prepare: (event: SourceEvent) => Prepared
  /** The aggregate's head may go out. */
  onReady: (aggregate: Aggregate) => void
}

/** Aggregates that wait for their next try, at which nothing more is read: with that many nothing gets through. */
const maxSleeping = 100_000
/** Characters of payload in memory at which nothing more is read. */
const maxBytes = 48 * 1024 * 1024

/**
 * What the relay knows of the events of its buckets: a window of them in memory, in order for each aggregate, and
 * for each aggregate that must wait, from which position on its events are in the table only. Bounded by
 * `capacity` events; an aggregate that waits keeps none.
 */
export class Backlog {
  readonly buckets = new Map<number, OwnedBucket>()
  readonly #options: BacklogOptions
  /** Ids in memory, under way, or waiting for their settlement. */
  readonly #known = new Map<string, Entry>()
  /** Settled while a read was under way: that read may still show them as pending. */
  #settledMeanwhile: Set<string> | undefined
  /** Held or let go while it was read which are held: that read may show it as it was before. */
  #heldMeanwhile: Set<string> | undefined
  readonly #resumable = new Set<Aggregate>()
  readonly #sleepers = createSleepers()
  readonly #away = new Set<Aggregate>()
  #bytes = 0
  #turn = 0

  constructor(options: BacklogOptions) {
    this.#options = options
  }

  /** How many more events may come into memory. */
  get room(): number {
    if (this.#bytes >= maxBytes || this.#sleepers.size >= maxSleeping) return 0
    return Math.max(0, this.#options.capacity - this.#known.size)
  }

  /** With less room than this a read costs more than it brings. */
  get worthReading(): number {
    return Math.ceil(this.#options.capacity / 4)
  }

  /** Aggregates that wait for the next try of their head. */
  get sleeping(): number {
    return this.#sleepers.size
  }

  /** Aggregates that wait for their destination to come back. */
  get away(): number {
    return this.#away.size
  }

  own(taken: TakenBucket): OwnedBucket {
    const owned = createBucket(taken, leastAppetite)
    this.buckets.set(taken.bucket, owned)
    return owned
  }

  /** Forgets a bucket. Events under way come back to nothing. Answers how many were in memory. */
  disown(owned: OwnedBucket): number {
    owned.lost = true
    if (this.buckets.get(owned.bucket) === owned) this.buckets.delete(owned.bucket)
    for (const aggregate of owned.aggregates.values()) {
      this.#resumable.delete(aggregate)
      this.#sleepers.delete(aggregate)
      this.#away.delete(aggregate)
      aggregate.queue = []
    }
    // Events under way are forgotten too: should the bucket come back, it starts from what the table says.
    const dropped = owned.loaded
    for (const entry of this.#known.values()) if (entry.aggregate.bucket === owned) this.#forget(entry)
    return dropped
  }

  /** What to read next for at most `room` new events. */
  plan(room: number): ReadPlan {
    const owned = [...this.buckets.values()].filter((bucket) => bucket.opened && !bucket.draining)
    const plan = planReads(owned, this.#turn, room)
    this.#turn += plan.requests.length
    return plan
  }

  /** Aggregates that go on from the table. One whose head failed is asked for its head only. */
  planResume(): ResumeRequest[] {
    return planResumes(this.#resumable, this.#options.perAggregate)
  }

  /** To be called before a read is sent; `add` or `cancelRead` ends it. */
  beginRead(): void {
    this.#settledMeanwhile = new Set()
  }

  cancelRead(): void {
    this.#settledMeanwhile = undefined
    this.#heldMeanwhile = undefined
  }

  /** Takes in what was read. `decided` must be from before the read. Answers how many events were new. */
  add(requests: readonly PlannedRead[], events: readonly ReadEvent[], decided: bigint, now: number): number {
    const returned = new Map<number, Returned>()
    let added = 0
    // Of a bucket that was set back to its start meanwhile, earlier events may be pending below the floor that was
    // asked for: nothing may go before them.
    const current = requests.filter((request) => this.#isCurrent(request))
    const usable = new Set(current.map(({ bucket }) => bucket))
    for (const event of events) {
      if (!usable.has(event.bucket)) continue
      const seen = returned.get(event.bucket) ?? { rows: 0, last: 0n, cut: false }
      returned.set(event.bucket, seen)
      if (event.body === null) seen.cut = true
      if (seen.cut) continue
      if (event.position < seen.last) throw new Error('the source gave the events of a bucket out of order')
      seen.rows++
      seen.last = event.position
      if (this.#takeIn(event as SourceEvent, now, false)) added++
    }
    for (const request of current) {
      const bucket = this.buckets.get(request.bucket)!
      moveFloor(bucket, request, returned.get(request.bucket), decided, this.#options.capacity)
    }
    return added
  }

  /** True when some of these buckets were lost or set back since the read was planned: what they gave is dropped. */
  isOutdated(requests: readonly PlannedRead[]): boolean {
    return !requests.every((request) => this.#isCurrent(request))
  }

  #isCurrent({ bucket, generation }: PlannedRead): boolean {
    return this.buckets.get(bucket)?.generation === generation
  }

  /** Takes in what was read for aggregates that go on from the table. */
  addResumed(resumed: readonly ResumeRequest[], events: readonly ReadEvent[], now: number): number {
    const rows = groupBy(events, (event) => this.#find(event))
    let added = 0
    for (const { aggregate, limit } of resumed) {
      // A bucket that was lost or set back meanwhile answers for itself.
      if (!this.#resumable.delete(aggregate)) continue
      const found = rows.get(aggregate) ?? []
      const cut = found.find((event) => event.body === null)
      aggregate.stashedFrom = cut?.position ?? (found.length >= limit ? found.at(-1)!.position + 1n : null)
      aggregate.passed = 0
      if (found.length === 0) aggregate.failing = null
      for (const event of found) {
        if (event === cut) break
        if (this.#takeIn(event as SourceEvent, now, true)) added++
      }
      if (aggregate.state === 'idle') this.advance(aggregate, now)
    }
    return added
  }

  /** Puts an event into its aggregate's queue, or leaves it in the table; false when nothing new is in memory. */
  #takeIn(event: SourceEvent, now: number, resumed: boolean): boolean {
    const bucket = this.buckets.get(event.bucket)
    if (bucket === undefined || this.#known.has(event.id) || this.#settledMeanwhile?.has(event.id))
      return false
    const aggregate = this.#findOrMake(bucket, event)
    if (aggregate.stashedFrom !== null && !(resumed && event.position < aggregate.stashedFrom)) {
      aggregate.passed++
      this.#stash(aggregate, event.position)
      return false
    }
    const overflowing = aggregate.queue.length >= this.#options.perAggregate
    if (
      aggregate.state === 'held' ||
      aggregate.state === 'waiting' ||
      aggregate.state === 'away' ||
      overflowing
    ) {
      this.#stash(aggregate, event.position)
      return false
    }
    const entry: Entry = {
      event,
      aggregate,
      outcome: this.#options.prepare(event),
      notBefore: event.retryInMs > 0 ? now + event.retryInMs : 0,
      crashes: event.crashes,
      exceptions: 0,
    }
    this.#known.set(event.id, entry)
    this.#bytes += event.body.length
    bucket.loaded++
    insertInOrder(aggregate.queue, entry)
    if (aggregate.state === 'idle' || aggregate.state === 'ready') this.advance(aggregate, now)
    return true
  }

  #find(key: AggregateKey): Aggregate | undefined {
    return this.buckets.get(key.bucket)?.aggregates.get(aggregateKey(key.aggregateType, key.aggregateId))
  }

  #findOrMake(bucket: OwnedBucket, { aggregateType, aggregateId }: AggregateKey): Aggregate {
    const key = aggregateKey(aggregateType, aggregateId)
    const found = bucket.aggregates.get(key)
    if (found !== undefined) return found
    const made: Aggregate = {
      type: aggregateType,
      id: aggregateId,
      bucket,
      queue: [],
      state: 'idle',
      wakeAt: 0,
      stashedFrom: null,
      passed: 0,
      failing: null,
    }
    bucket.aggregates.set(key, made)
    return made
  }

  /** Decides what an aggregate does next, once nothing of it is under way. */
  advance(aggregate: Aggregate, now: number): void {
    const { bucket } = aggregate
    if (bucket.lost || aggregate.state === 'held') return
    const head = aggregate.queue[0]
    if (head !== undefined) {
      if (head.notBefore > now) return this.sleep(aggregate, head.notBefore)
      const wasReady = aggregate.state === 'ready'
      aggregate.state = 'ready'
      if (!wasReady) this.#options.onReady(aggregate)
      return
    }
    aggregate.state = 'idle'
    if (aggregate.stashedFrom !== null) this.#resumable.add(aggregate)
    else if (aggregate.failing === null) bucket.aggregates.delete(aggregateKey(aggregate.type, aggregate.id))
  }

  /** Keeps an aggregate until a moment; its events stay in the table. */
  sleep(aggregate: Aggregate, wakeAt: number): void {
    this.#unload(aggregate)
    aggregate.state = 'waiting'
    aggregate.wakeAt = wakeAt
    this.#sleepers.add(aggregate)
  }

  /** Keeps an aggregate behind a dead letter until somebody decides. */
  hold(aggregate: Aggregate): void {
    this.#heldMeanwhile?.add(aggregateKey(aggregate.type, aggregate.id))
    this.#unload(aggregate)
    aggregate.state = 'held'
  }

  /** Lets an aggregate go on whose dead letter was taken back. */
  unhold(aggregate: Aggregate, now: number): void {
    this.#heldMeanwhile?.add(aggregateKey(aggregate.type, aggregate.id))
    if (aggregate.state !== 'held') return
    aggregate.state = 'idle'
    this.advance(aggregate, now)
  }

  /** To be called before it is read which aggregates are held; `setHeld` or `cancelRead` ends it. */
  beginHeld(): void {
    this.#heldMeanwhile = new Set()
  }

  /** Sets the aggregates that must be held in some buckets, as read from the table. */
  setHeld(buckets: readonly number[], held: readonly AggregateKey[], now: number): void {
    const keys = new Set(held.map((key) => aggregateKey(key.aggregateType, key.aggregateId)))
    const newer = this.#heldMeanwhile ?? new Set()
    this.#heldMeanwhile = undefined
    for (const number of buckets) {
      const bucket = this.buckets.get(number)
      if (bucket === undefined) continue
      bucket.opened = true
      for (const [key, aggregate] of bucket.aggregates) {
        if (!keys.has(key) && !newer.has(key)) this.unhold(aggregate, now)
      }
    }
    for (const key of held) {
      const bucket = this.buckets.get(key.bucket)
      if (bucket === undefined || newer.has(aggregateKey(key.aggregateType, key.aggregateId))) continue
      const aggregate = this.#findOrMake(bucket, key)
      // With events under way it is the settlement that holds it.
      if (aggregate.state !== 'busy') this.hold(aggregate)
    }
  }

  /** Drops the events of an aggregate whose destination is away, to make room for others. */
  sendAway(aggregate: Aggregate): void {
    this.#unload(aggregate)
    aggregate.state = 'away'
    this.#away.add(aggregate)
  }

  /** Wakes the aggregates whose moment has come; answers the next moment, or Infinity. */
  wake(now: number): number {
    return this.#sleepers.wake(now, (aggregate) => {
      aggregate.state = 'idle'
      this.advance(aggregate, now)
    })
  }

  get resumable(): number {
    return this.#resumable.size
  }

  /** Reads a bucket from its start again: a command put rows back, or positions are worth nothing any more. */
  rewind(bucket: OwnedBucket, now: number): void {
    bucket.floor = 0n
    bucket.generation = nextGeneration()
    for (const aggregate of bucket.aggregates.values()) {
      if (aggregate.state === 'waiting' || aggregate.state === 'held' || aggregate.stashedFrom === null)
        continue
      aggregate.stashedFrom = null
      aggregate.passed = 0
      this.#resumable.delete(aggregate)
      if (this.#away.delete(aggregate)) aggregate.state = 'idle'
      if (aggregate.state === 'idle') this.advance(aggregate, now)
    }
  }

  /** Takes the first events of an aggregate out of its queue: they are under way now. */
  takeHead(aggregate: Aggregate, count: number): Entry[] {
    aggregate.state = 'busy'
    aggregate.bucket.inFlight += count
    return aggregate.queue.splice(0, count)
  }

  /** Puts events that did not go out back to the front. */
  putBack(aggregate: Aggregate, entries: readonly Entry[]): void {
    aggregate.bucket.inFlight -= entries.length
    if (aggregate.bucket.lost) return
    aggregate.queue.unshift(...entries)
  }

  /** An event under way is settled in the table, or not ours any more. */
  settled(entry: Entry): void {
    const { bucket } = entry.aggregate
    bucket.inFlight--
    this.#forget(entry)
    this.#settledMeanwhile?.add(entry.event.id)
    if (bucket.suspects > 0) bucket.suspects--
  }

  /** Drops an event under way that stays pending in the table; it is read again from there. */
  release(entry: Entry): void {
    entry.aggregate.bucket.inFlight--
    this.#forget(entry)
    this.#stash(entry.aggregate, entry.event.position)
  }

  #forget(entry: Entry): void {
    entry.aggregate.bucket.loaded--
    if (this.#known.get(entry.event.id) !== entry) return
    this.#known.delete(entry.event.id)
    this.#bytes -= entry.event.body.length
  }

  #unload(aggregate: Aggregate): void {
    for (const entry of aggregate.queue) {
      this.#forget(entry)
      this.#stash(aggregate, entry.event.position)
    }
    aggregate.queue = []
  }

  #stash(aggregate: Aggregate, from: bigint): void {
    if (aggregate.stashedFrom === null || from < aggregate.stashedFrom) aggregate.stashedFrom = from
  }
}
