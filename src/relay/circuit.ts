import { backoffMs } from '../pause.ts'

export interface CircuitOptions {
  probeMaxMs: number
  /** Called when the destination is found away, or back. */
  onChange: (state: 'up' | 'down', details: { error: string; downMs: number }) => void
}

/** Lets all, one or no call through to a destination. */
export interface Circuit {
  readonly open: boolean
  /** The error that opened it; null while closed. */
  readonly error: string | null
  /** Since when it is in this state, `performance.now()`. */
  readonly since: number
  /** When the next probe may go, `performance.now()`; only of use while open. */
  readonly probeAt: number
  /** Failed probes since it opened. */
  readonly probes: number
  /** Calls that may be under way at once now, of `workers` at the most. */
  allowed(now: number, workers: number): number
  /** A call that began at `startedAt` found the destination away. */
  failed(startedAt: number, now: number, reason: { error: string; afterMs?: number; answer?: string }): void
  /**
   * A call that began at `startedAt` got an answer. While the circuit is open for one and the same refusal
   * (`answer`), only a publication or another answer closes it.
   */
  answered(startedAt: number, now: number, answer: string | null): void
}

const firstProbeMs = 200

/** A circuit breaker for one destination. While open, one event at a time probes it, with backoff and jitter. */
export function createCircuit({ probeMaxMs, onChange }: CircuitOptions): Circuit {
  let open = false
  let error: string | null = null
  let since = performance.now()
  let probeAt = 0
  let probes = 0
  let refusal: string | null = null

  return {
    get open() {
      return open
    },
    get error() {
      return error
    },
    get since() {
      return since
    },
    get probeAt() {
      return probeAt
    },
    get probes() {
      return probes
    },
    allowed: (now, workers) => (!open ? workers : now >= probeAt ? 1 : 0),
    failed(startedAt, now, reason) {
      // Calls that were under way when it opened say nothing new.
      if (open && startedAt < since) return
      probes = open ? probes + 1 : 0
      const pause = backoffMs(probes + 1, { baseMs: firstProbeMs, maxMs: probeMaxMs })
      // Half of it is sure, so that a crowd of relays spreads and none hammers.
      const ceiling = Math.min(probeMaxMs, firstProbeMs * 2 ** Math.min(probes, 40))
      probeAt = now + Math.max(reason.afterMs ?? 0, ceiling / 2 + pause / 2)
      error = reason.error
      if (open) return
      open = true
      since = now
      refusal = reason.answer ?? null
      onChange('down', { error, downMs: 0 })
    },
    answered(startedAt, now, answer) {
      if (!open || startedAt < since || (answer !== null && answer === refusal)) return
      const downMs = now - since
      open = false
      since = now
      const last = error ?? ''
      error = null
      refusal = null
      probes = 0
      onChange('up', { error: last, downMs })
    },
  }
}
