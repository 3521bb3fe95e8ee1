import { setMaxListeners } from 'node:events'

/** Longest delay of a timer in milliseconds; Node fires a longer one at once. */
export const maxTimerMs = 2 ** 31 - 1

/** Resolves after `ms` milliseconds, or when one of the signals aborts. Never rejects. */
export function pause(ms: number, ...signals: readonly AbortSignal[]): Promise<void> {
  return new Promise((resolve) => {
    if (signals.some(({ aborted }) => aborted)) return resolve()
    const done = () => {
      clearTimeout(timer)
      for (const signal of signals) signal.removeEventListener('abort', done)
      resolve()
    }
    const timer = setTimeout(done, Math.min(Math.max(ms, 0), maxTimerMs))
    for (const signal of signals) signal.addEventListener('abort', done, { once: true })
  })
}

/** A controller whose signal any number of calls may listen to at once: Node would take more than ten for a leak. */
export function createSharedAbort(): AbortController {
  const controller = new AbortController()
  setMaxListeners(0, controller.signal)
  return controller
}

/** Resolves when the signal aborts. */
export function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve()
    else signal.addEventListener('abort', () => resolve(), { once: true })
  })
}

/** A pause that grows with each failure in a row, up to `maxMs`, half of it random. */
export function retryPauseMs(failures: number, maxMs: number): number {
  const ceiling = Math.min(maxMs, 100 * 2 ** Math.min(failures, 20))
  return ceiling / 2 + (Math.random() * ceiling) / 2
}

/**
 * Exponential backoff with full jitter (AWS Architecture Blog, "Exponential Backoff And Jitter"): a random pause
 * between 0 and `baseMs * 2^(tries - 1)`, at most `maxMs`, and at least `atLeastMs`.
 */
export function backoffMs(
  tries: number,
  { baseMs, maxMs, atLeastMs = 0 }: { baseMs: number; maxMs: number; atLeastMs?: number },
): number {
  const ceiling = Math.min(maxMs, baseMs * 2 ** Math.min(tries - 1, 40))
  return Math.max(atLeastMs, Math.round(Math.random() * ceiling))
}

/** Something to wait for that can be opened from elsewhere; an opening with nobody waiting is remembered. */
export interface Signal {
  notify(): void
  /** Resolves at the next (or the remembered) notification, or after `ms`; true when it was notified. */
  wait(ms: number): Promise<boolean>
}

export function createSignal(): Signal {
  let notified = false
  let wake: (() => void) | undefined
  return {
    notify() {
      notified = true
      wake?.()
    },
    wait(ms) {
      return new Promise((resolve) => {
        const done = () => {
          clearTimeout(timer)
          wake = undefined
          const was = notified
          notified = false
          resolve(was)
        }
        const timer = notified ? undefined : setTimeout(done, Math.min(Math.max(ms, 0), maxTimerMs))
        if (notified) done()
        else wake = done
      })
    },
  }
}

/** True when the work ended within the time, without an error. */
export async function within(work: Promise<unknown>, ms: number): Promise<boolean> {
  const timeout = new AbortController()
  const ended = work.then(
    () => true,
    () => false,
  )
  const result = await Promise.race([ended, pause(ms, timeout.signal).then(() => false)])
  timeout.abort()
  return result
}

/** `Promise.withResolvers`, which came with Node 22. */
export function withResolvers<T>() {
  let resolve!: (value: T) => void
  let reject!: (error: unknown) => void
  const promise = new Promise<T>((yes, no) => {
    resolve = yes
    reject = no
  })
  return { promise, resolve, reject }
}
