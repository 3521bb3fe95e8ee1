import type { WaybillError } from '../errors.ts'
import { pause } from '../pause.ts'

export interface DrainParts {
  /** Nothing in this relay's buckets can go out now. */
  isIdle: () => boolean
  /** Why waiting is in vain. */
  fatal: () => WaybillError | undefined
  /** Makes a sleeping relay look again. */
  nudge: () => void
  /** Aggregates of this relay's buckets that are due and cannot go out. */
  stuck: () => number
  /** Events that are due in the buckets of others, up to some bound. */
  dueElsewhere: () => Promise<number>
  /** How long others may take for theirs, in milliseconds: a relay that died holds its buckets for a lease. */
  patienceMs: number
  signal: AbortSignal
}

const lookEveryMs = 10
const lookElsewhereEveryMs = 100

/**
 * Waits until nothing that is due is left, neither here nor with others. Answers what is: events behind a destination
 * that is away, and those that another relay did not deliver in time.
 */
export async function untilDrained(parts: DrainParts): Promise<number> {
  const { isIdle, fatal, nudge, signal } = parts
  const gaveUp = () => signal.aborted || fatal() !== undefined
  let patientUntil: number | undefined
  for (;;) {
    while (!isIdle() && !gaveUp()) {
      nudge()
      await pause(lookEveryMs, signal)
    }
    if (gaveUp()) return parts.stuck()
    const elsewhere = await parts.dueElsewhere()
    // What was theirs may be ours by now.
    if (!isIdle()) continue
    patientUntil ??= performance.now() + parts.patienceMs
    if (elsewhere === 0 || performance.now() >= patientUntil) return parts.stuck() + elsewhere
    await pause(lookElsewhereEveryMs, signal)
  }
}
