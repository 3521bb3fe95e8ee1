import type { Telemetry } from '../telemetry/events.ts'
import type { Listener } from './listener.ts'
import { createSignal } from '../pause.ts'
import type { Source } from './source.ts'

export interface WakeupOptions {
  /** Absent with `wakeup: 'poll'`. */
  listener: Pick<Listener, 'state'> | undefined
  pollIntervalMs: number
  telemetry: Telemetry
  /**
   * Says on the database that this relay sleeps for so many milliseconds, or (null) that it is awake. False when the
   * database does not know this relay yet.
   */
  setAsleep: (ms: number | null) => Promise<boolean>
  source: Pick<Source, 'readWriters' | 'onReset'>
}

/** What a look for work came to. */
export interface Look {
  /** So many events came into memory. */
  readonly found: number
  /** There may be more that can be read now. */
  readonly more: boolean
}

/**
 * Decides when to look for work next.
 *
 * A writer notifies only while some relay says that it sleeps, since a NOTIFY in every commit makes all commits
 * of the cluster wait for each other. So a relay sleeps only when little happens: under load, or when it is woken
 * for nothing (the events are another relay's), it stays awake and polls.
 */
export interface Wakeup {
  /** Resolves when the next look is due. */
  next(look: Look): Promise<void>
  /** A NOTIFY came. */
  notified(): void
  /** Something else makes a look worth while: room in memory, a retry that is due, a new bucket. */
  nudge(): void
}

/** A slow look that catches whatever was missed, in milliseconds. */
const safetyPollMs = 5_000
/** How long a flag `asleep` lasts on the database, in milliseconds; a relay that dies leaves it behind so long. */
const asleepMs = 15_000
/** The flag is set anew when it is older than this, in milliseconds. */
const refreshMs = 7_500
/** Idle for so long, in milliseconds: time to sleep. */
const lingerMs = 30
/** Longest pause between two looks while awake and listening. */
const awakePollMs = 5
/** Longest pause while a writer is open that may not have seen the flag. */
const watchMs = 20
/** So many wake-ups within `busyWindowMs` are load: better awake. */
const busyWakeups = 30
const busyWindowMs = 100
/** Then it stays awake for so long at least. */
const awakeAtLeastMs = 2_000
/** So many looks in a row that found something are load too. */
const busyStreak = 5
/** Under load, a look that brings fewer events than this came too early, and one with as few as `trickle` did not. */
const full = 48
/** Longest pause after a look under load that brought something. */
const longestPaceMs = 10
/** At this rate a look each millisecond costs little. */
const trickle = 4

/** The pause before the next look of a relay under load, in milliseconds, from the one before this look. */
function paceAfter(found: number, pauseMs: number): number {
  if (found < trickle) return 1
  return found < full ? Math.min(pauseMs + 1, longestPaceMs) : Math.max(1, pauseMs - 1)
}

export function createWakeup(options: WakeupOptions): Wakeup {
  const { listener, pollIntervalMs, telemetry, setAsleep, source } = options
  const signal = createSignal()
  let notification = false
  let idleSince: number | undefined
  let pauseMs = 1
  let streak = 0
  /** Until when the flag on the database lasts; 0: awake. */
  let asleepUntil = 0
  let awakeUntil = 0
  /** Writers that may have read "awake" before the flag was set. */
  let watched: Set<string> | undefined
  let wakeups: number[] = []

  function countWakeup(now: number): void {
    wakeups.push(now)
    if (wakeups.length > busyWakeups) wakeups.shift()
    const busy = wakeups.length === busyWakeups && now - wakeups[0]! < busyWindowMs
    if (busy) wakeUp(now + awakeAtLeastMs)
  }

  function wakeUp(until: number): void {
    awakeUntil = until
    wakeups = []
    if (asleepUntil === 0) return
    asleepUntil = 0
    watched = undefined
    // A flag that stays costs only notifications; it runs out by itself.
    setAsleep(null).catch(() => undefined)
  }

  /** Says that it sleeps. True when that holds already; otherwise the next look comes first. */
  async function fallAsleep(now: number): Promise<boolean> {
    if (asleepUntil - now > asleepMs - refreshMs) return true
    const wasAwake = asleepUntil === 0
    if (!(await setAsleep(asleepMs))) {
      await signal.wait(awakePollMs)
      return false
    }
    if (wasAwake) watched = new Set((await source.readWriters()).open)
    asleepUntil = now + asleepMs
    if (!wasAwake) return true
    // Once more, now that whoever writes will say so.
    return false
  }

  /** True when a watched writer has ended: its events may be there, and it did not notify. */
  async function watchedEnded(): Promise<boolean> {
    if (watched === undefined || watched.size === 0) return false
    const { open } = await source.readWriters()
    const before = watched.size
    const still = new Set(open)
    for (const writer of watched) if (!still.has(writer)) watched.delete(writer)
    return watched.size < before
  }

  async function waitAsleep(): Promise<void> {
    const deadline = performance.now() + safetyPollMs
    for (;;) {
      const watching = watched !== undefined && watched.size > 0
      const woken = await signal.wait(Math.min(deadline - performance.now(), watching ? watchMs : Infinity))
      if (woken) {
        const byNotify = notification
        notification = false
        return telemetry.emit('relay.wakeup', { source: byNotify ? 'notify' : 'retry' })
      }
      if (performance.now() >= deadline) return telemetry.emit('relay.wakeup', { source: 'safety' })
      const ended = await watchedEnded()
      if (ended || asleepUntil === 0) return telemetry.emit('relay.wakeup', { source: 'poll' })
    }
  }

  async function next({ found, more }: Look): Promise<void> {
    const now = performance.now()
    if (found > 0) {
      idleSince = undefined
      if (++streak >= busyStreak) wakeUp(now + awakeAtLeastMs)
      // Events that come in one by one are worth a moment: fewer, fuller reads and marks leave the processors to those
      // who write.
      pauseMs = now < awakeUntil ? paceAfter(found, pauseMs) : 1
      if (found < full && streak > 1 && !more) await signal.wait(pauseMs)
      return
    }
    if (more) return
    streak = 0
    idleSince ??= now
    const listening = listener?.state === 'up'
    if (listening && now >= awakeUntil && (asleepUntil > 0 || now - idleSince >= lingerMs)) {
      if (await fallAsleep(now)) await waitAsleep()
      return
    }
    if (!listening) asleepUntil = 0
    const longest = listening ? awakePollMs : pollIntervalMs
    const woken = await signal.wait(Math.min(pauseMs, longest))
    pauseMs = Math.min(pauseMs * 2, longest)
    telemetry.emit('relay.wakeup', { source: woken ? (notification ? 'notify' : 'retry') : 'poll' })
    notification = false
  }

  // Another session may be one with another server, or with one that crashed: the flag, which is not waited for on
  // the disk, may be lost.
  source.onReset(() => {
    asleepUntil = 0
    watched = undefined
  })

  return {
    next,
    notified() {
      notification = true
      countWakeup(performance.now())
      signal.notify()
    },
    nudge: () => signal.notify(),
  }
}
