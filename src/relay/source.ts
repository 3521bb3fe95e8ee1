import type { StoredEvent } from '../publishing/message.ts'

/** An event as the relay read it, with the bookkeeping that decides what happens to it. */
export interface SourceEvent extends StoredEvent {
  /** Empty once it is published. */
  body: string
  readonly bucket: number
  /** Order inside the aggregate. */
  readonly position: bigint
  /** Failures counted so far. */
  readonly attempts: number
  /** Relays that died while they handled it. */
  readonly crashes: number
  /** Milliseconds until it may be tried again; 0 or less: now. */
  readonly retryInMs: number
}

/** As read from the table: the body is null where the read was cut for its size. */
export type ReadEvent = Omit<SourceEvent, 'body'> & { readonly body: string | null }

/** What to read of one owned bucket. */
export interface BucketRequest {
  readonly bucket: number
  /** Read above this position: everything at or below is known to this relay. */
  readonly floor: bigint
  /** Most rows. */
  readonly limit: number
  /** False: nothing of it is likely to be wanted; all its rows come without their payloads. */
  readonly payloads: boolean
}

/** One aggregate of which the rows from `from` on are not in memory. */
export interface AggregateRequest {
  readonly bucket: number
  readonly aggregateType: string
  readonly aggregateId: string
  readonly from: bigint
}

/**
 * Where committed events come from. Polling reads the table; a stream of the WAL can stand here as well, since
 * the table stays the truth: whatever a source missed, the next read of the table finds.
 */
export interface Source {
  /**
   * Pending events above each bucket's floor in `position` order, without those of `skip` from their position on.
   * A null body marks an event that would have been too much for one read, or was not asked for: if it is wanted, it
   * and what follows in its bucket is read again later.
   */
  read(requests: readonly BucketRequest[], skip: readonly AggregateRequest[]): Promise<ReadEvent[]>
  /** Pending events of single aggregates in `position` order, at most `limit` of each. */
  readAggregates(requests: readonly (AggregateRequest & { limit: number })[]): Promise<ReadEvent[]>
  /** Aggregates of these buckets that a dead letter holds back. */
  readHeld(buckets: readonly number[]): Promise<AggregateKey[]>
  /** Looks at who is writing; see {@link Writers}. */
  readWriters(): Promise<Writers>
  /** Called when remembered positions are worth nothing any more (new session, new timeline, TRUNCATE). */
  onReset(listener: () => void): void
}

/** Who is writing to the outbox. */
export interface Writers {
  /** Every position up to here is decided: committed and visible, or never to come. */
  readonly decided: bigint
  /** The last position that was drawn. */
  readonly drawn: bigint
  /** Transactions that have written and are still open. */
  readonly open: readonly string[]
}

export interface AggregateKey {
  readonly bucket: number
  readonly aggregateType: string
  readonly aggregateId: string
}
