import { setTimeout as sleep } from 'node:timers/promises'
import type { RelayJob, RelayReport } from '../child/job.ts'
import { nowMs } from '../child/job.ts'
import type { ClockReport } from '../child/statement-clock.ts'
import type { Context } from '../part.ts'
import { startRelay } from '../relays.ts'
import type { BenchDatabase } from '../server.ts'
import { median, percentile } from '../statistics.ts'
import { delays, trickle } from '../trickle.ts'

/** What a relay's look for work cost while events trickled in. */
export interface Claimed {
  /** Median of the reads that brought rows. */
  claimMs: number
  p95Ms: number
  /** Time in reads of all kinds, per second. */
  readingMsPerSecond: number
  /** From a commit's answer to the call of the publisher, median. */
  deliveryMs: number
  /** Events that had not arrived at the end. */
  missing: number
  /** From the relay's start to its first event. */
  firstMs: number
}

const settleMs = 1_000
const trickled = {
  transactionsPerSecond: 20,
  eventsPerTransaction: 20,
  aggregateType: 'order',
  aggregates: 1000,
}
/** The relay's own look for work: reads of new rows, not those of single aggregates. */
const claims = /waybill_read(_skipping)?$/
const reads = /waybill_read/

export async function claimOnce(
  { scale, children, profileFolder }: Context,
  database: BenchDatabase,
  options: Partial<RelayJob>,
): Promise<Claimed> {
  const { warmUpSeconds, seconds } = scale.claim
  const startedAt = nowMs()
  const relay = startRelay(
    children,
    { url: database.url, record: trickled.aggregateType, ...options },
    { seconds: warmUpSeconds + seconds, profileFolder },
  )
  try {
    await relay.warm()
    await trickle({ client: database.client, seconds: warmUpSeconds, ...trickled })
    const warm = await relay.ask<RelayReport>('report')
    const commits = await trickle({ client: database.client, seconds, ...trickled })
    const { calls, statements } = await relay.ask<RelayReport>('report')
    await sleep(settleMs)
    const late = await relay.ask<RelayReport>('report')
    const { arrived, missing } = delays(commits, [...calls, ...late.calls])
    const times = claimTimes(statements)
    return {
      claimMs: median(times),
      p95Ms: percentile(times, 95),
      readingMsPerSecond: readingMs(statements) / seconds,
      deliveryMs: median(arrived),
      missing,
      firstMs: (warm.calls[0]?.[1] ?? Number.NaN) - startedAt,
    }
  } finally {
    await relay.stop()
  }
}

function claimTimes(statements: ClockReport): number[] {
  return Object.entries(statements).flatMap(([name, { withRowsMs }]) => (claims.test(name) ? withRowsMs : []))
}

function readingMs(statements: ClockReport): number {
  return Object.entries(statements).reduce(
    (sum, [name, { totalMs }]) => (reads.test(name) ? sum + totalMs : sum),
    0,
  )
}
