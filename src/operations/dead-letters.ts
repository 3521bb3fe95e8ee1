import type { Connection } from '../database/connection.ts'
import { isConflict, isLockTimeout } from '../database/failures.ts'
import { inSchema } from '../database/identifiers.ts'
import { WaybillError } from '../errors.ts'
import { discardStatement, retryStatement } from './dead-letter-statements.ts'
import { type DeadLetterTarget, checkTarget, targetBatches } from './dead-letter-targets.ts'
import { type DeadLetterFilter, checkEventFilter } from './event-filter.ts'
import type { EventItem } from './event-item.ts'
import { checkReason, checkText, currentUser } from '../input.ts'
import { type PageOptions, listMatching } from './list-events.ts'
import { findOvertaken } from './overtaken.ts'

/** An event that became a dead letter, with why. */
export interface DeadLetter extends EventItem {
  /** The last failure, or why it could never be delivered. */
  readonly reason: string | null
}

export interface DeadLetterPage {
  readonly items: readonly DeadLetter[]
  readonly next: string | null
}

/**
 * Why a dead letter was left alone: a newer revision (or, without revisions, a later event of its aggregate) is
 * out already; there is no such event; it is no dead letter; somebody else was faster.
 */
export const skipReasons = ['overtaken', 'not-found', 'not-dead', 'changed-meanwhile'] as const
export type SkipReason = (typeof skipReasons)[number]

/** Exact counts of what was done. `matched` = `changed` + skipped as overtaken or changed meanwhile. */
export interface DeadLetterReport {
  /** Dead letters that were asked for and looked at. */
  readonly matched: number
  readonly changed: number
  readonly skipped: Readonly<Record<SkipReason, number>>
  /** The first 100 that were skipped. */
  readonly skippedEvents: readonly { id: string; reason: SkipReason }[]
  /** False when the run was stopped early: the same call again goes on with the rest. */
  readonly complete: boolean
}

export interface DeadLetterActionOptions extends DeadLetterTarget {
  /** Who decides. Default: the user of the operating system. */
  decidedBy?: string
  /** Stops between two chunks. */
  signal?: AbortSignal
  /**
   * Stops after so long, in milliseconds, but not before something was changed: however long it takes to find what
   * can be, the same call again gets further. Default: none.
   */
  timeLimitMs?: number
  /** Called after each chunk with the counts so far. */
  onProgress?: (report: DeadLetterReport) => void
}

export interface RetryOptions extends DeadLetterActionOptions {
  /** Also those that newer events of their aggregate have overtaken. Default: false. */
  allowOlder?: boolean
  /** Default: `retry of a dead letter`. */
  reason?: string
}

export interface DiscardOptions extends DeadLetterActionOptions {
  /** Why they are given up; kept in `decisions`. */
  reason: string
}

/** Events of one chunk: one statement, one transaction. */
const chunkSize = 500

/**
 * Dead letters in position order, page by page; see `listEvents`.
 *
 * @throws USAGE_INVALID
 */
export async function listDeadLetters(
  db: Connection,
  schema: string,
  options: DeadLetterFilter & PageOptions = {},
): Promise<DeadLetterPage> {
  const conditions = { ...checkEventFilter(options), states: ['dead' as const] }
  const { items, next } = await listMatching(db, schema, conditions, options)
  return { items: items.map((item) => ({ ...item, reason: item.lastError })), next }
}

/**
 * Puts dead letters back: pending, at their old place in their aggregate, attempts and crashes 0. Works in chunks
 * of 500, each a transaction of its own, in position order; a run that was interrupted is resumed by the same call.
 * The last error stays readable until the next failure.
 *
 * @throws USAGE_INVALID; for a single id also EVENT_NOT_FOUND, and ACTION_REFUSED when it is no dead letter or was
 *   overtaken without `allowOlder`.
 */
export async function retryDeadLetters(
  db: Connection,
  schema: string,
  options: RetryOptions,
): Promise<DeadLetterReport> {
  const { allowOlder = false, reason = 'retry of a dead letter' } = options
  return act(db, schema, options, { sql: retryStatement, reason, allowOlder, more: [allowOlder] })
}

/**
 * Gives dead letters up, with a reason: they stay in the table as `discarded`, and one that held its aggregate lets
 * the later events go. Chunks and resuming as with `retryDeadLetters`.
 *
 * @throws USAGE_INVALID; for a single id also EVENT_NOT_FOUND, and ACTION_REFUSED when it is no dead letter.
 */
export async function discardDeadLetters(
  db: Connection,
  schema: string,
  options: DiscardOptions,
): Promise<DeadLetterReport> {
  return act(db, schema, options, {
    sql: discardStatement,
    reason: options.reason,
    allowOlder: true,
    more: [],
  })
}

interface Action {
  sql: string
  reason: string
  /** True: no need to look for events that were overtaken. */
  allowOlder: boolean
  /** Further values of the statement. */
  more: readonly unknown[]
}

async function act(
  db: Connection,
  schema: string,
  options: DeadLetterActionOptions,
  { sql, reason, allowOlder, more }: Action,
): Promise<DeadLetterReport> {
  const target = checkTarget(options)
  const why = checkReason(reason)
  const who = checkText('decidedBy', options.decidedBy ?? currentUser(), 200)
  const statement = inSchema(sql, schema)
  const table = inSchema('"waybill".outbox_events', schema)
  const tally = createTally()
  const deadline = performance.now() + (options.timeLimitMs ?? Infinity)
  const isOver = () => options.signal?.aborted === true || (tally.changed > 0 && performance.now() > deadline)
  for await (const { letters, notFound, notDead } of targetBatches(db, schema, target, isOver)) {
    tally.skip('not-found', notFound)
    tally.skip('not-dead', notDead)
    const older = allowOlder ? new Set<string>() : await findOvertaken(db, schema, letters, isOver)
    for (let start = 0; start < letters.length && !isOver(); start += chunkSize) {
      const chunk = letters.slice(start, start + chunkSize).map(({ id }) => id)
      const ids = chunk.filter((id) => !older.has(id))
      const { rows } =
        ids.length === 0
          ? { rows: [] }
          : await withoutConflict(() =>
              db.query<{ id: string; overtaken: boolean }>(statement, [ids, who, why, table, ...more]),
            )
      const outcome = new Map(rows.map((row) => [row.id, row.overtaken]))
      tally.matched += chunk.length
      tally.changed += rows.filter(({ overtaken }) => !overtaken).length
      tally.skip(
        'overtaken',
        chunk.filter((id) => older.has(id) || outcome.get(id) === true),
      )
      tally.skip(
        'changed-meanwhile',
        ids.filter((id) => !outcome.has(id)),
      )
      options.onProgress?.(tally.report(false))
    }
  }
  const report = tally.report(!isOver())
  if (target.ids?.length === 1) refuseSingle(report)
  return report
}

function createTally() {
  const skipped: Record<SkipReason, number> = {
    overtaken: 0,
    'not-found': 0,
    'not-dead': 0,
    'changed-meanwhile': 0,
  }
  const events: { id: string; reason: SkipReason }[] = []
  return {
    matched: 0,
    changed: 0,
    skip(reason: SkipReason, ids: readonly string[]): void {
      skipped[reason] += ids.length
      for (const id of ids.slice(0, 100 - events.length)) events.push({ id, reason })
    },
    report(complete: boolean): DeadLetterReport {
      const { matched, changed } = this
      return { matched, changed, skipped: { ...skipped }, skippedEvents: [...events], complete }
    },
  }
}

/** With one id there is one answer: a refusal is an error, not a count. */
function refuseSingle({ skippedEvents: [skipped] }: DeadLetterReport): void {
  if (skipped === undefined) return
  const { id, reason } = skipped
  if (reason === 'not-found') throw new WaybillError('EVENT_NOT_FOUND', `no event has the id ${id}`)
  throw new WaybillError(
    'ACTION_REFUSED',
    reason === 'overtaken'
      ? `event ${id} was overtaken: newer events of its aggregate are published already, so consumers would see it ` +
          'after them; allow older events (--allow-older) if they can take that'
      : `event ${id} is not a dead letter (any more), look at its state first`,
    { details: { id, reason } },
  )
}

/** A statement that met a conflict, or found a row locked for too long, did nothing. */
async function withoutConflict<T>(run: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await run()
    } catch (error) {
      if (attempt < 3 && (isConflict(error) || isLockTimeout(error))) continue
      if (!isLockTimeout(error)) throw error
      throw new WaybillError(
        'DATABASE_TIMEOUT',
        'somebody else has locked one of these dead letters: let that transaction end (pg_stat_activity shows it), ' +
          'then run this again',
        { cause: error },
      )
    }
  }
}
