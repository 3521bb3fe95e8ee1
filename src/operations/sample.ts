import type { Connection } from '../database/connection.ts'
import { inSchema } from '../database/identifiers.ts'
import type { ConsumerSample } from '../telemetry/consumer-sample-metrics.ts'
import { type OutboxSample, countLimit } from '../telemetry/events.ts'
import type { ConsumerMarks } from './consumers-sample.ts'
import {
  blockedStatement,
  blockersStatement,
  deadStatement,
  oldestStatement,
  unsettledStatement,
} from './sample-statements.ts'
import { readTask } from './task-lease.ts'
import { createWindowSize } from './window.ts'

/** A sample that was read, and how old it is by the database's clock. */
export interface StoredSample {
  readonly sample: OutboxSample
  readonly ageSeconds: number
  /** How long counting took, in milliseconds. */
  readonly durationMs: number
  /** Of each consumer of this database; null when the role that counts may not read their tables. */
  readonly consumers: readonly ConsumerSample[] | null
  /** Where the next look for their lag begins. */
  readonly consumerMarks: ConsumerMarks
}

/** As it is kept beside the lease of its task. */
type Kept = OutboxSample & Pick<StoredSample, 'durationMs'> & Partial<StoredSample>

type Ask = <Row>(sql: string, values?: readonly unknown[]) => Promise<Row>

interface Waiting {
  unsettled: number
  /** Of these, what waits behind a blocker. */
  blocked: number
  /** Of these, what has failed itself. */
  failed: number
}

/**
 * Counts the outbox, each state up to `limit`, in statements that each take about a quarter of a second: rows that
 * were just written lie on pages of their own, on a disk perhaps. Each event is looked at once. The age of the oldest
 * pending event is that of the oldest among the first of each bucket.
 */
export async function takeSample(db: Connection, schema: string, limit = countLimit): Promise<OutboxSample> {
  const ask: Ask = async <Row>(sql: string, values: readonly unknown[] = []) =>
    (await db.query<Row>(inSchema(sql, schema), values)).rows[0]!
  const { aggregates, failing, buckets, troubled } = await ask<{
    aggregates: number
    failing: number
    buckets: number[]
    troubled: number[]
  }>(blockersStatement, [limit])
  // Up to the limit in each of their three states.
  const behind = await countWaiting(ask, blockedStatement, troubled, limit * 3)
  const free = buckets.filter((bucket) => !troubled.includes(bucket))
  const before = await countWaiting(ask, unsettledStatement, free, limit)
  const dead = await countDead(ask, limit)
  const retrying = Math.max(0, failing - behind.failed)
  const pending = before.unsettled + Math.max(0, behind.unsettled - behind.blocked - retrying)
  return {
    ...(await ask<Pick<OutboxSample, 'sampledAt' | 'oldestPendingAgeSeconds'>>(oldestStatement)),
    counts: { pending: Math.min(pending, limit), retrying, blocked: Math.min(behind.blocked, limit), dead },
    blockedAggregates: aggregates,
  }
}

async function countWaiting(
  ask: Ask,
  sql: string,
  buckets: readonly number[],
  limit: number,
): Promise<Waiting> {
  const total = { unsettled: 0, blocked: 0, failed: 0 }
  const size = createWindowSize({ first: 4, least: 1, most: 1024 })
  for (let next = 0; next < buckets.length && total.unsettled < limit;) {
    const group = buckets.slice(next, next + size.rows)
    const startedAt = performance.now()
    const { unsettled, blocked, failed } = await ask<Waiting>(sql, [limit - total.unsettled, group])
    size.took(performance.now() - startedAt)
    total.unsettled += unsettled
    total.blocked += blocked
    total.failed += failed
    next += group.length
  }
  return total
}

async function countDead(ask: Ask, limit: number): Promise<number> {
  const window = createWindowSize({ first: 5_000, most: limit })
  let after: string | null = '-1'
  let count = 0
  while (after !== null && count < limit) {
    const wanted = Math.min(window.rows, limit - count)
    const startedAt = performance.now()
    const { rows, last }: { rows: number; last: string | null } = await ask(deadStatement, [after, wanted])
    window.took(performance.now() - startedAt)
    count += rows
    after = rows < wanted ? null : last
  }
  return count
}

/** The sample that a relay left, or null when there is none yet. One look-up by key. */
export async function readSample(db: Connection, schema: string): Promise<StoredSample | null> {
  const read = await readTask(db, schema, 'sample')
  if (read === null) return null
  const { durationMs, consumers = null, consumerMarks = {}, ...sample } = read.result as Kept
  return { sample, ageSeconds: read.ageSeconds, durationMs, consumers, consumerMarks }
}

/**
 * The same while a relay lives that will renew it. What the last one left, however young, says nothing of what was
 * written since.
 */
export async function readLiveSample(db: Connection, schema: string): Promise<StoredSample | null> {
  const { rows } = await db.query<{ lives: boolean }>(
    inSchema(
      'SELECT EXISTS (SELECT FROM "waybill".outbox_relays AS r WHERE r.expires_at > clock_timestamp()) AS lives',
      schema,
    ),
  )
  return rows[0]!.lives ? readSample(db, schema) : null
}

/** A count as people read it: `1000000+` where counting stopped. */
export function formatCount(count: number, limit = countLimit): string {
  return count >= limit ? `${limit}+` : String(count)
}
