import { WaybillError, describeError } from '../errors.ts'
import type { Telemetry } from '../telemetry/events.ts'

/** What `/livez` and `/readyz` say. */
export interface Health {
  /** False only when a restart would help. */
  live: boolean
  /** False when due work exists and nothing moves, or nothing can. */
  ready: boolean
  /** Why it is not ready, for people; null when it is. */
  reason: string | null
}

export interface HealthOptions {
  telemetry: Telemetry
  leaseMs: number
  /** Aggregates with an event that is due. */
  due: () => number
  /** Aggregates whose event failed and waits for its next try. */
  waiting: () => number
}

type Part = 'read' | 'mark' | 'lease'

export interface HealthKeeper {
  started(): void
  /** A statement of this part worked. */
  worked(part: Part): void
  /** A statement of this part failed; told once until all parts work again. */
  failed(part: Part, error: unknown): void
  /** An event was settled. */
  progressed(): void
  now(): Health
  /** The last failure, when waiting will not mend it (a missing grant, a schema that is not migrated). */
  readonly fatal: WaybillError | undefined
}

/** With a destination away, nothing published for so long, in milliseconds, makes the relay not ready. */
const stillMs = 1_000
/** Due work that has not moved for so long, in milliseconds, makes the relay not ready. */
const stuckAfterMs = 10_000
/** A loop that has not come round for so long while the database answers is hung. */
const hungAfterMs = 300_000

export function createHealth(options: HealthOptions): HealthKeeper {
  const { telemetry, leaseMs, due, waiting } = options
  const failing = new Set<Part>()
  const lastWorked = new Map<Part, number>()
  let startedAt: number | undefined
  let downSince = 0
  let error = ''
  let fatal: WaybillError | undefined
  let progressedAt = performance.now()
  let publishedAt = -Infinity
  const down = new Map<string, string>()
  telemetry.on('batch.finished', ({ published }) => {
    if (published > 0) publishedAt = performance.now()
  })
  telemetry.on('destination.down', ({ destination, error: reason }) => down.set(destination, reason))
  telemetry.on('destination.up', ({ destination }) => down.delete(destination))

  function reason(): string | null {
    const now = performance.now()
    if (startedAt === undefined) return 'the relay is not started'
    if (failing.size > 0) return `the database does not answer: ${error}`
    if (now - (lastWorked.get('lease') ?? -Infinity) > leaseMs) return 'the relay has no lease yet'
    const [away] = down
    if (away !== undefined && due() + waiting() > 0 && now - publishedAt > stillMs) {
      return `destination ${JSON.stringify(away[0])} is away: ${away[1]}`
    }
    if (due() === 0) return null
    return now - progressedAt > stuckAfterMs ? 'events are due and nothing moves' : null
  }

  function live(): boolean {
    if (startedAt === undefined || failing.size > 0) return true
    const now = performance.now()
    return now - Math.max(startedAt, lastWorked.get('lease') ?? 0) < hungAfterMs
  }

  return {
    started() {
      startedAt = performance.now()
    },
    worked(part) {
      lastWorked.set(part, performance.now())
      if (failing.delete(part) && failing.size === 0) {
        telemetry.emit('database.up', { downMs: performance.now() - downSince })
      }
    },
    failed(part, failure) {
      error = describeError(failure, 300)
      fatal = failure instanceof WaybillError && !failure.retryable ? failure : undefined
      if (failing.size === 0) {
        downSince = performance.now()
        telemetry.emit('database.down', { error })
      }
      failing.add(part)
    },
    progressed() {
      progressedAt = performance.now()
    },
    get fatal() {
      return failing.size > 0 ? fatal : undefined
    },
    now() {
      const why = reason()
      return { live: live(), ready: why === null, reason: why }
    },
  }
}
