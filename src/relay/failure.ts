import { hasCode } from '../errors.ts'

/**
 * What one failure looks like by itself.
 *
 * - `unavailable`: the destination says, or shows, that it takes no work at all (refused, 401, 429, 503);
 * - `silent`: no answer about this event (a timeout, a reset while it was under way, an exception);
 * - `explicit`: an answer about this one event (500, a nack);
 * - `refused`: the destination will never take this event (404, 422);
 * - `undeliverable`: it cannot even be put into the destination's terms (too large, no route).
 */
export type FailureKind = 'unavailable' | 'silent' | 'explicit' | 'refused' | 'undeliverable'

/** What is done about it: open the destination's circuit, wait uncounted, count an attempt, dead letter. */
export type Verdict = 'outage' | 'wait' | 'count' | 'dead'

export interface FailureFacts {
  kind: FailureKind
  /** Another event of this destination went out in a call that began after this event began to fail. */
  othersGetThrough: boolean
  /** The destination asked for a pause (429, Retry-After): it is about itself, whoever else gets through. */
  throttled: boolean
  /** How long this event has been failing, in milliseconds. */
  failingForMs: number
  /** `attempts` of the event before this failure. */
  attempts: number
  maxAttempts: number
  outageGraceMs: number
}

/**
 * Tells an outage from a bad event by evidence, not by a status code alone: a failure counts against an event only
 * if another one got through since it began to fail. An explicit answer about one event counts also without that
 * once it has gone on for `outageGraceMs`, since a destination may have one aggregate only.
 */
export function judge(facts: FailureFacts): Verdict {
  const { kind, othersGetThrough, throttled, failingForMs, attempts, maxAttempts, outageGraceMs } = facts
  if (kind === 'refused' || kind === 'undeliverable') return 'dead'
  const counts = throttled
    ? false
    : othersGetThrough || (kind === 'explicit' && failingForMs >= outageGraceMs)
  if (counts) return attempts + 1 >= maxAttempts ? 'dead' : 'count'
  return kind === 'explicit' ? 'wait' : 'outage'
}

/** The kind of a `retry` or `reject` result, or of what `publish` threw: that is no answer of the destination. */
export function kindOf(status: 'retry' | 'reject' | 'threw', error: unknown): FailureKind {
  if (status === 'reject') return hasCode(error, 'EVENT_REJECTED') ? 'refused' : 'undeliverable'
  if (hasCode(error, 'BROKER_UNAVAILABLE')) return 'unavailable'
  return status === 'threw' || hasCode(error, 'PUBLISH_TIMEOUT') ? 'silent' : 'explicit'
}

/**
 * How many events that may have killed a relay are tried together, given how many deaths are on record for them.
 * The group shrinks as the evidence grows, so that after a few deaths only the guilty one is left; a group of one
 * is used whenever one more death would make its events dead letters.
 */
export function suspectGroupSize(
  crashes: number,
  { deadAfter, batchSize }: { deadAfter: number; batchSize: number },
): number {
  if (crashes + 1 >= deadAfter) return 1
  return crashes === 0 ? batchSize : Math.max(1, Math.floor(Math.sqrt(batchSize) / crashes))
}

/**
 * Deaths on record after which an event is a dead letter. The first death is not on record (nothing is written
 * before an ordinary call), so that no event kills more than `maxAttempts` relays; with `maxAttempts` 1 it is two.
 */
export function deadAfterCrashes(maxAttempts: number): number {
  return Math.max(1, maxAttempts - 1)
}
