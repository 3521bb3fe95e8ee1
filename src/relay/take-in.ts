import { type Aggregate, type OwnedBucket, type Prepared, type Share, aggregateKey } from './aggregate.ts'
import type { Backlog } from './backlog.ts'
import type { ReadEvent, SourceEvent } from './source.ts'

export interface TakeInOptions {
  backlog: Backlog
  /** Most events of one aggregate in memory; the others stay in the table until these are out. */
  perAggregate: number
  prepare: (event: SourceEvent) => Prepared
  /** Where an event goes; null when that is nowhere. */
  destinationOf: (event: ReadEvent) => string | null
}

/** For what a row was read. */
export interface Reading {
  /** For what is owed to this destination. */
  owedTo?: Share
  /** For its aggregate, from where that one's events are in the table only. */
  resumed?: boolean
  /** From a position above the floor: an event with a lower position may have come meanwhile. */
  above?: boolean
}

/**
 * What became of a row:
 *
 * - `taken`: it is in memory now
 * - `left`: it is nothing new, or its aggregate must wait
 * - `parked`: left in the table since its destination has no room; its aggregate waits there with others
 * - `full`: not looked at, there is no room for it now; nothing behind it may be used
 */
export type Taken = 'taken' | 'left' | 'parked' | 'full'

export type TakeIn = (event: ReadEvent, now: number, reading?: Reading) => Taken

const forNew: Reading = {}

/** Puts an event into its aggregate's queue, or leaves it in the table. */
export function createTakeIn({ backlog, perAggregate, prepare, destinationOf }: TakeInOptions): TakeIn {
  const { shares } = backlog

  /** True when it stays in the table, wherever it goes: what comes before it is there, or must be tried again first. */
  function mustWait(
    event: ReadEvent,
    bucket: OwnedBucket,
    key: string,
    aggregate: Aggregate | undefined,
    reading: Reading,
  ): boolean {
    const { position } = event
    const { owedTo, resumed = false } = reading
    if (aggregate !== undefined && aggregate.stashedFrom !== null) {
      if (!resumed || position >= aggregate.stashedFrom) {
        aggregate.passed++
        backlog.stash(aggregate, position)
        return true
      }
    }
    if (bucket.arrears !== null && !resumed) {
      const claim = bucket.arrears.claimed(key, position)
      if (claim !== undefined && claim !== owedTo) {
        bucket.arrears.leave(key, position, () => destinationOf(event) !== claim.destination)
        return true
      }
      // Of those that are not owed there may be earlier events that were not read yet.
      if (claim === undefined && owedTo !== undefined) return true
    }
    if (aggregate?.state !== 'held' && aggregate?.state !== 'waiting') return false
    backlog.stash(aggregate, position)
    return true
  }

  return (event, now, reading = forNew) => {
    const { position } = event
    const { owedTo, resumed = false, above = false } = reading
    const bucket = backlog.buckets.get(event.bucket)
    if (bucket === undefined || backlog.isKnown(event, bucket)) return 'left'
    const key = aggregateKey(event.aggregateType, event.aggregateId)
    const aggregate = bucket.aggregates.get(key)
    if (mustWait(event, bucket, key, aggregate, reading)) return 'left'
    const outcome = hasBody(event) ? prepare(event) : null
    const share = shares.of(outcome === null ? destinationOf(event) : outcome.destination)
    const hasNoRoom = share !== owedTo && shares.isClosed(share) && !(resumed && aggregate?.awaits === share)
    // One that came without its payload can be left in the table like others, and no more.
    if (outcome === null && !hasNoRoom) return 'full'
    if (aggregate !== undefined && aggregate.queue.length >= perAggregate) {
      backlog.stash(aggregate, position, share)
      return 'left'
    }
    if (hasNoRoom) {
      backlog.park(bucket, key, share, position, { further: resumed })
      // It changes the destination for which it waits: it may do so again.
      if (owedTo !== undefined) bucket.arrears!.mix(key)
      return 'parked'
    }
    if (share === owedTo && shares.room(share) <= 0) return 'full'
    if (above) {
      if (share.resumable.size >= shares.room(share)) return 'full'
      backlog.goOnFrom(bucket, event, bucket.floor + 1n, share, now)
      return 'left'
    }
    backlog.insert(event as SourceEvent, { bucket, key, aggregate, outcome: outcome!, share }, now)
    return 'taken'
  }
}

function hasBody(event: ReadEvent): event is SourceEvent {
  return event.body !== null
}
