import type { Connection } from '../database/connection.ts'
import { isLockTimeout } from '../database/failures.ts'
import { inSchema } from '../database/identifiers.ts'
import { type ArchiveTable, openArchive } from './archive.ts'
import { usageInvalid } from '../input.ts'
import { lastPosition } from './cursor.ts'
import { adoptStatement, lookStatement, recordStatement, removeStatement } from './prune-statements.ts'
import { windowStatement } from './walk.ts'
import { createWindowSize } from './window.ts'

export interface PruneOptions {
  /** Days after processing that an event is kept, on the database's clock; 0 to 36 500. */
  processedDays: number
  /** Counts and removes nothing. Default: false. */
  dryRun?: boolean
  /** Keeps what is removed in this table. */
  archive?: ArchiveTable
  /** Stops between two batches. */
  signal?: AbortSignal
  /** Called after each batch. */
  onProgress?: (report: PruneReport) => void
  /** Asked after each batch: false ends the sweep. */
  mayContinue?: () => Promise<boolean>
}

export interface PruneReport {
  /** Events removed. */
  readonly deleted: number
  /** Events old enough to be removed; more than `deleted` on a dry run, or when some are in use just now. */
  readonly prunable: number
  /** Events were processed before this moment, ISO 8601. */
  readonly before: string
  /** False when the sweep was stopped early: the same call again goes on. */
  readonly complete: boolean
}

interface Look {
  aged: number
  prunable: number
  intents: number
}

/** Rows of one batch: few enough that each statement takes milliseconds. */
const batchRows = 1_000
/** Counting alone may take more at once. */
const dryRunRows = 50_000

/**
 * Removes events that were processed more than `processedDays` ago, in batches of at most 1 000 rows that never
 * wait for a writer. Pending, blocked and dead events are never touched, and discarded ones stay as a record.
 * Before an event with a revision goes, `publication_heads` knows that it was relayed.
 *
 * Safe at any time and from several places at once.
 *
 * @throws USAGE_INVALID, CONFIGURATION_INVALID for an archive table that does not fit.
 */
export async function prune(db: Connection, schema: string, options: PruneOptions): Promise<PruneReport> {
  const { dryRun = false, signal, mayContinue } = options
  const archive = options.archive === undefined ? undefined : await openArchive(db, schema, options.archive)
  const before = await readCutoff(db, options.processedDays)
  const windowEnd = inSchema(windowStatement('all', 'oldest'), schema)
  const look = inSchema(lookStatement, schema)
  const remove = removeStatement(schema, archive)
  const size = createWindowSize({ first: batchRows, most: dryRun ? dryRunRows : batchRows })
  let deleted = 0
  let prunable = 0
  for (let after = '-1'; ;) {
    const startedAt = performance.now()
    const end = (await db.query<{ position: string }>(windowEnd, [after, size.rows])).rows[0]?.position
    const bounds = [after, end ?? lastPosition, before]
    const window = (await db.query<Look>(look, bounds)).rows[0]!
    prunable += window.prunable
    if (!dryRun && window.prunable > 0) {
      if (window.intents > 0) await recordRelayed(db, schema, bounds)
      deleted += (await db.query(remove, bounds)).rowCount
    }
    size.took(performance.now() - startedAt)
    options.onProgress?.({ deleted, prunable, before, complete: false })
    // Rows follow each other roughly in time. Beyond a whole window that was created after the cutoff nothing can
    // have been processed before it; the rare row of a very long transaction is found by a later sweep.
    if (end === undefined || window.aged === 0) return { deleted, prunable, before, complete: true }
    if (signal?.aborted || (mayContinue && !(await mayContinue()))) {
      return { deleted, prunable, before, complete: false }
    }
    after = end
  }
}

async function readCutoff(db: Connection, days: number): Promise<string> {
  if (!Number.isFinite(days) || days < 0 || days > 36_500) {
    throw usageInvalid(`expected processedDays to be a number from 0 to 36500, got ${days}`)
  }
  const { rows } = await db.query<{ before: string }>(
    `SELECT to_char((clock_timestamp() - $1::text::float8 * interval '1 day') AT TIME ZONE 'UTC',
                    'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS before`,
    [days],
  )
  return rows[0]!.before
}

async function recordRelayed(db: Connection, schema: string, bounds: readonly unknown[]): Promise<void> {
  await db.query(inSchema(recordStatement, schema), bounds)
  try {
    await db.query(inSchema(adoptStatement, schema), bounds)
  } catch (error) {
    if (!isLockTimeout(error)) throw error
  }
}
