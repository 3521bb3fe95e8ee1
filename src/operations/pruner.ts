import type { Connection } from '../database/connection.ts'
import { inSchema } from '../database/identifiers.ts'
import { describeError } from '../errors.ts'
import type { Telemetry } from '../telemetry/events.ts'
import type { ArchiveTable } from './archive.ts'
import { type BackgroundService, createBackgroundService } from './background.ts'
import { prune } from './prune.ts'
import { abandonTask, claimTask, finishTask, renewTask } from './task-lease.ts'

export interface PrunerOptions {
  db: Connection
  schema: string
  telemetry: Telemetry
  /** A UUID: the relay on whose behalf this one works. */
  relayId: string
  /** Days after processing that an event is kept. */
  processedDays: number
  archive?: ArchiveTable
  /** How often one of the relays sweeps, in milliseconds. Default: 600 000. */
  intervalMs?: number
}

/** A relay that has been silent for so long is no longer of interest; a paused one registers again. */
const forgetRelaysAfter = '1 hour'

/**
 * Retention in the background: one relay at a time sweeps for all, under a lease that it renews with each batch.
 * Emits `prune.finished` and `prune.failed`.
 */
export function createPruner(options: PrunerOptions): BackgroundService {
  const { db, schema, telemetry, relayId, processedDays, archive, intervalMs = 600_000 } = options
  const task = { db, schema, name: 'prune', owner: relayId, leaseMs: 60_000 } as const

  async function run(signal: AbortSignal): Promise<void> {
    const started = performance.now()
    try {
      if (!(await claimTask(task, intervalMs * 0.9))) return
      await forgetRelays(db, schema)
      const report = await prune(db, schema, {
        processedDays,
        ...(archive === undefined ? {} : { archive }),
        signal,
        mayContinue: () => renewTask(task),
      })
      await (report.complete ? finishTask(task, report) : abandonTask(task))
      telemetry.emit('prune.finished', {
        deleted: report.deleted,
        durationMs: Math.round(performance.now() - started),
      })
    } catch (error) {
      telemetry.emit('prune.failed', { error: describeError(error, 500) })
      // The next turn is after the interval, or at once for another relay; the lease ends by itself.
      await abandonTask(task).catch(() => undefined)
    }
  }

  return createBackgroundService({ intervalMs, run })
}

async function forgetRelays(db: Connection, schema: string): Promise<void> {
  await db.query(
    inSchema(
      `DELETE FROM "waybill".outbox_relays WHERE expires_at < clock_timestamp() - interval '${forgetRelaysAfter}'`,
      schema,
    ),
  )
}
