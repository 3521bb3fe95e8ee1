import type { Message } from '../publishing/publisher.ts'
import type { Arrears } from './arrears.ts'
import type { SourceEvent } from './source.ts'

/** A bucket that this relay owns, and what it knows of it. */
export interface OwnedBucket {
  readonly bucket: number
  /** The fencing token under which it is owned, decimal text. */
  readonly epoch: string
  /** Last seen `rescan` of the bucket, decimal text. */
  rescan: string
  /** Every pending event at or below is in memory, or its aggregate has it in `stashedFrom`, or is in `arrears`. */
  floor: bigint
  /** Where to read on when that is not the floor: the floor must wait, and too much above it is known to read it each time. */
  next: bigint | null
  /** How far the look for what was missed below the floor has come, and where it ends; null: none is under way. */
  sweep: { from: bigint; readonly until: bigint } | null
  /** What was left in the table since its destination had no room. */
  arrears: Arrears<Share> | null
  /** Changes when the floor is set back, so that a read from before does not move it. */
  generation: number
  /** The last round of reads in which it was read to its end; 0: none since its floor was set back. */
  readIn: number
  /** What its dead letters hold back is known: it may be read. */
  opened: boolean
  /** How many new rows to ask for; follows what the bucket gives. */
  appetite: number
  /** The last read brought nothing but rows that stay in the table, and there are more. */
  passing: boolean
  readonly aggregates: Map<string, Aggregate>
  /** Events in memory. */
  loaded: number
  /** The highest position that was in memory. */
  highest: bigint
  /** Events under way, or waiting for their settlement. */
  inFlight: number
  /** Events still to be handled with care, since the last owner died with the first of them under way. */
  suspects: number
  /** That owner, as long as the table says so. */
  suspected: string | null
  /** To be handed over: nothing new is started. */
  draining: boolean
  /** Owned by another now: whatever comes back is dropped. */
  lost: boolean
}

/**
 * - `idle`: nothing to do in memory (more may be in the table: `stashedFrom`)
 * - `ready`: its head may go out
 * - `busy`: events are under way, or a settlement must be committed first
 * - `waiting`: until `wakeAt`
 * - `held`: behind a dead letter, until someone decides
 */
export type AggregateState = 'idle' | 'ready' | 'busy' | 'waiting' | 'held'

/** One aggregate with events that are not settled. */
export interface Aggregate {
  readonly type: string
  readonly id: string
  readonly bucket: OwnedBucket
  /** In `position` order, without those under way. */
  queue: Entry[]
  state: AggregateState
  /** `performance.now()` at which it may go on. */
  wakeAt: number
  /** Events from this position on are in the table only; null: all that is known is in memory. */
  stashedFrom: bigint | null
  /** Where the event at `stashedFrom` goes, as far as it is known. */
  awaits: Share
  /** Rows met, and left in the table, since it was stashed. */
  passed: number
  failing: Failing | null
}

/** What is remembered of an event that fails, while it waits in the table. */
export interface Failing {
  readonly eventId: string
  /** `performance.now()` of its first failure. */
  readonly since: number
  /** `performance.now()` of its last failure. */
  lastAt: number
  /** Failures, counted against it or not. */
  tries: number
}

/** One destination's part of the memory. */
export interface Share {
  /** Null for events that go nowhere (they are dead letters at once), and while it is not known where they go. */
  readonly destination: string | null
  readonly index: number
  /** Events in memory, and the characters of their payloads. */
  events: number
  bytes: number
  /** Buckets of which events were left in the table, since there was no room for them. */
  owing: number
  /** Has no room, and others must not wait for it: what is read of it stays in the table. */
  shut: boolean
  /** Aggregates that go on from the table by themselves, and whose next event goes here. */
  readonly resumable: Set<Aggregate>
  /** Single aggregates had their turn; next are those that were left in the table together. */
  arrearsFirst: boolean
  /** Rows of others that the last look for what is owed went through. */
  passed: number
}

/** One event in memory. */
export interface Entry {
  readonly event: SourceEvent
  readonly aggregate: Aggregate
  outcome: Prepared | Published
  /** The part of the memory that it takes. */
  readonly share: Share
  /** `performance.now()` before which it must not be tried. */
  readonly notBefore: number
  /** Deaths of relays on record. */
  crashes: number
  /** Calls with several events, this one among them, that ended without a word about any; from 2 on it goes alone. */
  exceptions: number
}

/** Where an event goes, or why it cannot go anywhere. */
export type Prepared =
  | { readonly destination: string; readonly message: Message; readonly bytes: number }
  | { readonly destination: null; readonly error: Error }

/** What is left of it in memory once it is published. */
export interface Published {
  readonly destination: string
  readonly message: null
  readonly bytes: 0
}

let generations = 0

/** Another number for each time that a bucket begins anew. */
export function nextGeneration(): number {
  return ++generations
}

/** What a lease says of its bucket. */
export type TakenBucket = Pick<OwnedBucket, 'bucket' | 'epoch' | 'rescan' | 'suspects' | 'suspected'>

/** A bucket of which nothing is known yet. */
export function createBucket(taken: TakenBucket, appetite: number): OwnedBucket {
  return {
    ...taken,
    floor: 0n,
    next: null,
    sweep: null,
    arrears: null,
    appetite,
    passing: false,
    generation: nextGeneration(),
    readIn: 0,
    opened: false,
    aggregates: new Map(),
    loaded: 0,
    highest: 0n,
    inFlight: 0,
    draining: false,
    lost: false,
  }
}

export function aggregateKey(type: string, id: string): string {
  // U+0000 cannot be in a text of PostgreSQL.
  return `${type}\u0000${id}`
}

/** Almost always at the end; a retried dead letter or a late commit goes to its old place. */
export function insertInOrder(queue: Entry[], entry: Entry): void {
  let at = queue.length
  while (at > 0 && queue[at - 1]!.event.position > entry.event.position) at--
  if (at === queue.length) queue.push(entry)
  else queue.splice(at, 0, entry)
}
