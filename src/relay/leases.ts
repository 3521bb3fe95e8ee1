import { hostname } from 'node:os'
import type { Connection } from '../database/connection.ts'
import type { Telemetry } from '../telemetry/events.ts'
import type { OwnedBucket } from './aggregate.ts'
import type { Backlog } from './backlog.ts'
import type { Statements } from './statements.ts'

export interface LeasesOptions {
  connection: Connection
  statements: Statements
  backlog: Backlog
  telemetry: Telemetry
  relayId: string
  version: string
  leaseMs: number
  /** Events that may have been under way when the last owner of a bucket died. */
  suspectWindow: number
  /** For `outbox_relays.info`. */
  info: () => Record<string, unknown>
  /** True when the buckets were read since the last renewal. */
  wasRead: () => boolean
  /** Buckets that must be opened: their held aggregates are not known yet, or may have changed. */
  onOpen: (buckets: readonly OwnedBucket[]) => void
}

/**
 * The buckets that this relay owns. A lease lasts `leaseMs` on the database's clock; on this side it counts from
 * before the renewal was sent, so that it ends here before it ends there. The token (`epoch`) does the rest.
 */
export interface Leases {
  /**
   * One round: sign of life, renewal, handing over what is too much, taking what is free. Answers in how many
   * milliseconds the next round is due.
   */
  round(): Promise<number>
  /** Only the renewal of what is owned. */
  renew(): Promise<void>
  /** True while nobody else can own the bucket. */
  isOurs(bucket: number): boolean
  /** The database said that these belong to another. */
  lost(buckets: Iterable<OwnedBucket>): void
  /** True when a bucket that is to be handed over has nothing under way any more. */
  readonly drained: boolean
  /** True when the last round left nothing to take: the fair share is reached, or others own the rest. */
  readonly complete: boolean
  /** Hands everything over and leaves. */
  leave(): Promise<void>
  /** Milliseconds to add to this machine's clock for the database's. */
  readonly clockOffsetMs: number
  /** `performance.now()` of the last round that worked. */
  readonly lastRoundAt: number
}

interface LeaseRow {
  bucket: number
  epoch: string
  rescan: string
  suspected: string | null
}

/** Leases are renewed this many times before they would run out. */
const renewalsPerLease = 4
/** With buckets missing, the next look comes after at most so many milliseconds. */
const hungryRoundMs = 500

export function createLeases(options: LeasesOptions): Leases {
  const { connection, statements, backlog, telemetry, relayId, leaseMs } = options
  const validUntil = new Map<number, number>()
  let clockOffsetMs = 0
  let lastRoundAt = -Infinity
  let lastOwned = -1
  let complete = false

  async function round(): Promise<number> {
    const sentAt = Date.now()
    const { rows: beats } = await connection.query<{ now: number; buckets: number; others: number }>(
      statements.heartbeat,
      [relayId, hostname(), process.pid, options.version, leaseMs, JSON.stringify(options.info())],
    )
    const { now, buckets, others } = beats[0]!
    clockOffsetMs = now - (sentAt + Date.now()) / 2
    await renew()
    const share = Math.ceil(buckets / (others + 1))
    const released = await handOver(share)
    const taken = await take(share - backlog.buckets.size)
    lastRoundAt = performance.now()
    complete = true
    if (taken + released > 0 || backlog.buckets.size !== lastOwned) {
      lastOwned = backlog.buckets.size
      telemetry.emit('relay.buckets', { owned: lastOwned, taken, released })
    }
    const regular = leaseMs / renewalsPerLease
    const draining = [...backlog.buckets.values()].some((bucket) => bucket.draining)
    return backlog.buckets.size < share || draining ? Math.min(hungryRoundMs, regular) : regular
  }

  async function renew(): Promise<void> {
    const startedAt = performance.now()
    const { rows } = await connection.query<LeaseRow>(statements.renew, [
      relayId,
      leaseMs,
      options.wasRead(),
      cleared(backlog.buckets.values()),
    ])
    const renewed = new Map(rows.map((row) => [row.bucket, row]))
    const rescans: OwnedBucket[] = []
    for (const [number, bucket] of backlog.buckets) {
      const row = renewed.get(number)
      if (row?.epoch !== bucket.epoch) {
        drop(bucket)
        continue
      }
      validUntil.set(number, startedAt + leaseMs)
      bucket.suspected = row.suspected
      if (row.rescan !== bucket.rescan) {
        bucket.rescan = row.rescan
        rescans.push(bucket)
      }
    }
    if (rescans.length > 0) options.onOpen(rescans)
    // Owned in the table, but not here: taken by a statement whose answer never came. Free them.
    const strays = rows.map((row) => row.bucket).filter((number) => !backlog.buckets.has(number))
    if (strays.length > 0) await connection.query(statements.release, [relayId, strays, []])
  }

  /** More than a fair share: stops starting work in some, and gives those back that have nothing under way. */
  async function handOver(share: number): Promise<number> {
    const owned = [...backlog.buckets.values()]
    const surplus = owned.length - share
    const draining = owned.filter((bucket) => bucket.draining)
    for (const bucket of owned) {
      if (draining.length >= surplus) break
      if (bucket.draining) continue
      bucket.draining = true
      draining.push(bucket)
    }
    for (const bucket of draining.splice(Math.max(0, surplus))) bucket.draining = false
    return giveBack(draining.filter((bucket) => bucket.inFlight === 0))
  }

  async function giveBack(free: readonly OwnedBucket[]): Promise<number> {
    if (free.length === 0) return 0
    // Forgotten first: from the moment that the statement is sent another may own them.
    for (const bucket of free) forget(bucket)
    const { rowCount } = await connection.query(statements.release, [
      relayId,
      free.map((bucket) => bucket.bucket),
      cleared(free),
    ])
    return rowCount
  }

  async function take(wanted: number): Promise<number> {
    if (wanted <= 0) return 0
    const startedAt = performance.now()
    const { rows } = await connection.query<LeaseRow>(statements.take, [relayId, leaseMs, wanted])
    const taken = rows.map((row) => {
      const { suspected } = row
      if (suspected !== null)
        telemetry.emit('relay.crash_suspected', { bucket: row.bucket, previousOwner: suspected })
      const stale = backlog.buckets.get(row.bucket)
      if (stale !== undefined) drop(stale)
      validUntil.set(row.bucket, startedAt + leaseMs)
      const { bucket, epoch, rescan } = row
      const suspects = suspected === null ? 0 : options.suspectWindow
      return backlog.own({ bucket, epoch, rescan, suspects, suspected })
    })
    if (taken.length > 0) options.onOpen(taken)
    return taken.length
  }

  function forget(bucket: OwnedBucket): number {
    validUntil.delete(bucket.bucket)
    return backlog.disown(bucket)
  }

  function drop(bucket: OwnedBucket): void {
    const dropped = forget(bucket)
    telemetry.emit('relay.lease_lost', { bucket: bucket.bucket, epoch: bucket.epoch, dropped })
  }

  return {
    round,
    renew,
    isOurs: (bucket) => performance.now() < (validUntil.get(bucket) ?? 0),
    lost(buckets) {
      for (const bucket of buckets) if (!bucket.lost) drop(bucket)
    },
    get drained() {
      return [...backlog.buckets.values()].some((bucket) => bucket.draining && bucket.inFlight === 0)
    },
    async leave() {
      // First of all not counted any more, so that those who hear of the free buckets know their share.
      await connection.query(statements.leave, [relayId])
      // A call that did not end may still arrive: its bucket is left to run out.
      await giveBack([...backlog.buckets.values()].filter((bucket) => bucket.inFlight === 0))
    },
    get complete() {
      return complete
    },
    get clockOffsetMs() {
      return clockOffsetMs
    },
    get lastRoundAt() {
      return lastRoundAt
    },
  }
}

/** Those of which the table says that an owner died, and whose events that were under way then are done with. */
function cleared(buckets: Iterable<OwnedBucket>): number[] {
  return [...buckets].filter((one) => one.suspected !== null && one.suspects === 0).map((one) => one.bucket)
}
