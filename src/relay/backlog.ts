import {
  type Aggregate,
  type Entry,
  type OwnedBucket,
  type Prepared,
  type Share,
  type TakenBucket,
  aggregateKey,
  createBucket,
  insertInOrder,
  nextGeneration,
} from './aggregate.ts'
import { Arrears } from './arrears.ts'
import { leastAppetite } from './read-plan.ts'
import { Shares } from './shares.ts'
import { createSleepers } from './sleepers.ts'
import type { AggregateKey, ReadEvent, SourceEvent } from './source.ts'

/** What is known of an event that comes into memory. */
export interface Insertion {
  readonly bucket: OwnedBucket
  readonly key: string
  /** Undefined: nothing is known of it yet. */
  readonly aggregate: Aggregate | undefined
  readonly outcome: Prepared
  readonly share: Share
}

export interface BacklogOptions {
  /** Most events in memory for one destination, and for others with it as many again. */
  capacity: number
  /** The names of all destinations. */
  destinations: readonly string[]
  /** True while a destination takes nothing but probes. */
  isAway: (destination: string) => boolean
  /** The aggregate's head may go out. */
  onReady: (aggregate: Aggregate) => void
}

/** Characters of payload in memory at which nothing more is read. */
const maxBytes = 48 * 1024 * 1024
/** Aggregates that wait for their next try. */
const maxSleeping = 100_000
/** Aggregates that are looked for in the table by themselves, though others of their destination wait there too. */
const maxSought = 1_000

/**
 * What the relay knows of the events of its buckets: a window of them in memory, in order for each aggregate, and
 * for each aggregate that must wait, from which position on its events are in the table only. Bounded by
 * `capacity` events; an aggregate that waits keeps none.
 */
export class Backlog {
  readonly buckets = new Map<number, OwnedBucket>()
  /** Which destination has how much of the memory. */
  readonly shares: Shares
  readonly #options: BacklogOptions
  /** Ids in memory, under way, or waiting for their settlement. */
  readonly #known = new Map<string, Entry>()
  /** Settled while a read was under way: that read may still show them as pending. */
  #settledMeanwhile: Set<string> | undefined
  /** Held or let go while it was read which are held: that read may show it as it was before. */
  #heldMeanwhile: Set<string> | undefined
  readonly #sleepers = createSleepers()

  constructor(options: BacklogOptions) {
    this.#options = options
    this.shares = new Shares({ ...options, maxBytes })
  }

  /** Aggregates that wait for the next try of their head. */
  get sleeping(): number {
    return this.#sleepers.size
  }

  /** With so many of them nothing gets through, and nothing more is to be read. */
  get isRestless(): boolean {
    return this.#sleepers.size >= maxSleeping
  }

  /** Aggregates, more or less, whose events were left in the table since their destination had no room. */
  get parked(): number {
    let sum = 0
    for (const { arrears } of this.buckets.values()) sum += arrears?.aggregates ?? 0
    return sum
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
    owned.arrears?.settleAll()
    for (const aggregate of owned.aggregates.values()) {
      aggregate.awaits.resumable.delete(aggregate)
      this.#sleepers.delete(aggregate)
      aggregate.queue = []
    }
    // Events under way are forgotten too: should the bucket come back, it starts from what the table says.
    const dropped = owned.loaded
    for (const entry of this.#known.values()) if (entry.aggregate.bucket === owned) this.#forget(entry)
    return dropped
  }

  /** To be called before a read is sent; `endRead` ends it. */
  beginRead(): void {
    this.#settledMeanwhile = new Set()
  }

  endRead(): void {
    this.#settledMeanwhile = undefined
    this.#heldMeanwhile = undefined
  }

  /** True when a row that was read is nothing new. What is above all that was in memory need not be looked up there. */
  isKnown({ id, position }: ReadEvent, { highest }: OwnedBucket): boolean {
    return position <= highest && (this.#known.has(id) || this.#settledMeanwhile?.has(id) === true)
  }

  /** Brings an event into memory; its aggregate is made when there is none yet. */
  insert(event: SourceEvent, insertion: Insertion, now: number): void {
    const { bucket, key, outcome, share } = insertion
    const aggregate = insertion.aggregate ?? this.#make(bucket, key, event)
    // Not by spreading: what is made of one is slow to read wherever an entry goes.
    const entry: Entry = {
      event,
      aggregate,
      outcome,
      share,
      notBefore: event.retryInMs > 0 ? now + event.retryInMs : 0,
      crashes: event.crashes,
      exceptions: 0,
    }
    this.#known.set(event.id, entry)
    this.shares.add(share, event.body.length)
    bucket.loaded++
    if (event.position > bucket.highest) bucket.highest = event.position
    // One that was just made may be all that there is: `push` would make room for seventeen.
    if (aggregate.queue.length === 0) aggregate.queue = [entry]
    else insertInOrder(aggregate.queue, entry)
    if (aggregate.state === 'idle' || aggregate.state === 'ready') this.advance(aggregate, now)
  }

  /**
   * Leaves an aggregate from a position on in the table, with all others for which its destination has no room.
   * `further`: events of it may have been met anywhere up to where the bucket was read.
   */
  park(
    bucket: OwnedBucket,
    key: string,
    share: Share,
    position: bigint,
    { further = false }: { further?: boolean } = {},
  ): void {
    bucket.arrears ??= new Arrears(this.shares.all)
    const { floor, next } = bucket
    const furthest = next !== null && next > floor ? next : floor
    const upTo = further && furthest > position ? furthest : position
    // Not above the floor: from there on it must be read as a whole.
    bucket.arrears.park(key, share, position > floor ? floor : position - 1n, upTo)
  }

  /** Lets an aggregate be read by itself from a position on, once what it has in memory is out. */
  goOnFrom(bucket: OwnedBucket, key: AggregateKey, from: bigint, awaits: Share, now: number): void {
    const aggregate = this.#findOrMake(bucket, key)
    this.stash(aggregate, from, awaits)
    if (aggregate.state === 'idle') this.advance(aggregate, now)
  }

  #findOrMake(bucket: OwnedBucket, { aggregateType, aggregateId }: AggregateKey): Aggregate {
    const key = aggregateKey(aggregateType, aggregateId)
    return bucket.aggregates.get(key) ?? this.#make(bucket, key, { aggregateType, aggregateId })
  }

  #make(
    bucket: OwnedBucket,
    key: string,
    { aggregateType, aggregateId }: Omit<AggregateKey, 'bucket'>,
  ): Aggregate {
    const made: Aggregate = {
      type: aggregateType,
      id: aggregateId,
      bucket,
      queue: [],
      state: 'idle',
      wakeAt: 0,
      stashedFrom: null,
      awaits: this.shares.of(null),
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
    if (aggregate.stashedFrom === null) this.#seek(aggregate)
    if (aggregate.stashedFrom !== null) aggregate.awaits.resumable.add(aggregate)
    else if (aggregate.failing === null) bucket.aggregates.delete(aggregateKey(aggregate.type, aggregate.id))
  }

  /** The next event of an aggregate that is parked may go to a destination that has room: it is looked for. */
  #seek(aggregate: Aggregate): void {
    const { arrears } = aggregate.bucket
    if (arrears === null) return
    const unknown = this.shares.of(null)
    if (unknown.resumable.size >= maxSought) return
    const from = arrears.seek(aggregateKey(aggregate.type, aggregate.id))
    if (from !== undefined) this.stash(aggregate, from, unknown)
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

  /** Puts the events of an aggregate that is ready back into the table, where it waits with others of its destination. */
  shed(aggregate: Aggregate): void {
    const { bucket, type, id } = aggregate
    const { share, event } = aggregate.queue[0]!
    this.#unload(aggregate)
    aggregate.state = 'idle'
    this.park(bucket, aggregateKey(type, id), share, event.position, { further: true })
    this.leaveParked(aggregate)
  }

  /** An aggregate is parked from here on: it does not go on by itself any more. */
  leaveParked(aggregate: Aggregate): void {
    aggregate.stashedFrom = null
    if (aggregate.state !== 'idle' || aggregate.failing !== null) return
    aggregate.bucket.aggregates.delete(aggregateKey(aggregate.type, aggregate.id))
  }

  /** Leaves of an aggregate that is ready only the head in memory. */
  trim(aggregate: Aggregate): void {
    const [head, ...rest] = aggregate.queue
    aggregate.queue = rest
    this.#unload(aggregate)
    aggregate.queue = [head!]
  }

  /** Wakes the aggregates whose moment has come; answers the next moment, or Infinity. */
  wake(now: number): number {
    return this.#sleepers.wake(now, (aggregate) => {
      aggregate.state = 'idle'
      this.advance(aggregate, now)
    })
  }

  /** Reads a bucket from its start again: a command put rows back, or positions are worth nothing any more. */
  rewind(bucket: OwnedBucket, now: number): void {
    bucket.floor = 0n
    bucket.next = null
    bucket.sweep = null
    bucket.arrears?.settleAll()
    bucket.arrears = null
    bucket.generation = nextGeneration()
    bucket.readIn = 0
    for (const aggregate of bucket.aggregates.values()) {
      if (aggregate.state === 'waiting' || aggregate.state === 'held' || aggregate.stashedFrom === null)
        continue
      aggregate.stashedFrom = null
      aggregate.passed = 0
      aggregate.awaits.resumable.delete(aggregate)
      if (aggregate.state === 'idle') this.advance(aggregate, now)
    }
  }

  /** Takes the first events of an aggregate out of its queue: they are under way now. */
  takeHead(aggregate: Aggregate, count: number): Entry[] {
    aggregate.state = 'busy'
    aggregate.bucket.inFlight += count
    const { queue } = aggregate
    if (count < queue.length) return queue.splice(0, count)
    aggregate.queue = []
    return queue
  }

  /** Puts events that did not go out back to the front. */
  putBack(aggregate: Aggregate, entries: readonly Entry[]): void {
    aggregate.bucket.inFlight -= entries.length
    if (aggregate.bucket.lost) return
    aggregate.queue.unshift(...entries)
  }

  /** An event under way is published: the garbage collector copies what it keeps until its settlement is in the table. */
  published(entry: Entry): void {
    const { event, share } = entry
    const { destination } = entry.outcome
    if (this.#known.get(event.id) === entry) this.shares.shrink(share, event.body.length)
    event.body = ''
    if (destination !== null) entry.outcome = { destination, message: null, bytes: 0 }
  }

  /** An event under way is settled in the table. */
  settled(entry: Entry): void {
    const { bucket } = entry.aggregate
    this.drop(entry)
    this.#settledMeanwhile?.add(entry.event.id)
    if (bucket.suspects > 0) bucket.suspects--
  }

  /** An event under way is not ours any more: should its bucket be ours again, it is read like any other. */
  drop(entry: Entry): void {
    entry.aggregate.bucket.inFlight--
    this.#forget(entry)
  }

  /** Drops an event under way that stays pending in the table; it is read again from there. */
  release(entry: Entry): void {
    this.drop(entry)
    this.stash(entry.aggregate, entry.event.position, entry.share)
  }

  /** Leaves the events of an aggregate from a position on in the table; where the first of them goes, if it is known. */
  stash(aggregate: Aggregate, from: bigint, awaits?: Share): void {
    if (aggregate.stashedFrom !== null && from >= aggregate.stashedFrom) return
    aggregate.stashedFrom = from
    // One that is resumable already is found there by what it awaits.
    if (awaits !== undefined && !aggregate.awaits.resumable.has(aggregate)) aggregate.awaits = awaits
  }

  #forget(entry: Entry): void {
    entry.aggregate.bucket.loaded--
    if (this.#known.get(entry.event.id) !== entry) return
    this.#known.delete(entry.event.id)
    this.shares.remove(entry.share, entry.event.body.length)
  }

  #unload(aggregate: Aggregate): void {
    for (const entry of aggregate.queue) {
      this.#forget(entry)
      this.stash(aggregate, entry.event.position, entry.share)
    }
    aggregate.queue = []
  }
}
