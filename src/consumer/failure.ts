import { failureOf, isConflict, sqlState } from '../database/failures.ts'
import { WaybillError } from '../errors.ts'
import { causes } from '../outbox/failures.ts'
import { EventParked } from './outcomes.ts'
import { Aborted, SessionLost } from './store.ts'

/** How far a try had come. */
export type TryPhase = 'claim' | 'handler' | 'commit'

/**
 * What a failed try means.
 *
 * - `stopped`: it was given up by a stop; not the event's fault.
 * - `conflict`: transactions got in each other's way (a serialisation failure, a deadlock): again, soon.
 * - `database`: the database is away, or refuses what the consumer itself needs: again, when it is back.
 * - `lost`: the session ended under the handler. An outage mostly; the same event again and again is another matter.
 * - `alone`: it may have ended the process before, so it is to be tried with nobody beside it.
 * - `crashed`: it has done so too often.
 * - `early`: a revision that has to wait for others.
 * - `refused`: the handler says that this event will never do, or its payload does not match its schema.
 * - `failed`: everything else: counts against the event.
 */
export type FailedTry =
  'stopped' | 'conflict' | 'database' | 'lost' | 'alone' | 'crashed' | 'early' | 'refused' | 'failed'

export function failedTry(error: unknown, phase: TryPhase): FailedTry {
  if (error instanceof EventParked) return 'early'
  if (error instanceof CrashSuspected) return error.verdict
  if (error instanceof Aborted) return 'stopped'
  if (causes(error).some(isConflict)) return 'conflict'
  if (phase === 'claim') return 'database'
  if (error instanceof SessionLost || isSessionEnd(error)) return 'lost'
  if (phase === 'commit' && isTimeout(error)) return 'lost'
  return error instanceof WaybillError && refusals.has(error.code) ? 'refused' : 'failed'
}

const refusals: ReadonlySet<string> = new Set(['EVENT_REJECTED', 'EVENT_UNDELIVERABLE', 'PAYLOAD_INVALID'])

/** Thrown before a handler runs, so that it does not. */
export class CrashSuspected extends Error {
  override readonly name = 'CrashSuspected'
  readonly verdict: 'alone' | 'crashed'

  constructor(verdict: 'alone' | 'crashed', deaths: number) {
    super(`the process ended ${deaths} times while this event was handled`)
    this.verdict = verdict
  }
}

/** Errors of other sockets than the database's have no SQLSTATE: they are the handler's own affair. */
function isSessionEnd(error: unknown): boolean {
  return causes(error).some((cause) => sqlState(cause) !== undefined && failureOf(cause) === 'connection')
}

function isTimeout(error: unknown): boolean {
  return error instanceof WaybillError && error.code === 'DATABASE_TIMEOUT'
}

/**
 * To throw in a handler: this event will never do, so it becomes a dead letter at once.
 *
 *     if (tenant === undefined) throw reject(`there is no tenant ${id}`)
 */
export function reject(reason: string, options: { cause?: unknown } = {}): WaybillError {
  return new WaybillError('EVENT_REJECTED', reason, options)
}

/** To throw in a handler: not now, and not before so many milliseconds; counts as a failed try. */
export function retryLater(reason: string, afterMs: number): WaybillError {
  return new WaybillError('PUBLISH_FAILED', reason, { details: { afterMs } })
}

/** The least pause that an error asks for, in milliseconds. */
export function requestedPauseMs(error: unknown): number {
  const afterMs = error instanceof WaybillError ? error.details['afterMs'] : undefined
  return typeof afterMs === 'number' && Number.isFinite(afterMs) ? Math.max(0, afterMs) : 0
}
