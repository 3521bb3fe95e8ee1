import { createSharedAbort } from '../pause.ts'
import type { Telemetry } from '../telemetry/events.ts'
import { startRelaySpan } from '../telemetry/traces.ts'
import type { Aggregate, Entry } from './aggregate.ts'
import type { Backlog } from './backlog.ts'
import { type Destination, allowedCalls } from './destination.ts'
import { deadAfterCrashes, suspectGroupSize } from './failure.ts'
import type { Fifo } from './fifo.ts'
import type { RelayTuning } from './options.ts'
import type { Call, Outcomes } from './outcomes.ts'
import { callPublisher, errorOf } from './publish-call.ts'
import { errorText } from './settlement.ts'
import type { Settler } from './settler.ts'
import { probesKept } from './shares.ts'

export interface DispatcherOptions {
  backlog: Backlog
  settler: Settler
  outcomes: Outcomes
  destinations: ReadonlyMap<string, Destination>
  tuning: Readonly<RelayTuning>
  telemetry: Telemetry
  /** False when the lease of a bucket may have run out on this side's clock: nothing new is started. */
  isOurs: (bucket: number) => boolean
  /** A call ended. */
  onProgress: () => void
}

/** Sends ready events to their destinations: several calls at once, none of which share an aggregate. */
export interface Dispatcher {
  /** Starts whatever may be started now. */
  pump(): void
  /** An aggregate has a head that may go out. */
  ready(aggregate: Aggregate): void
  /** Puts events of destinations that are away back into the table, so that memory has room for others. */
  makeRoom(): void
  /** `publish()` calls under way. */
  readonly active: number
  /** Aggregates whose head may go out, of destinations that are not away. */
  readonly startable: number
  /** Aggregates whose head may go out, or could if its destination were not away. */
  readonly waiting: number
  /** When to pump again though nothing happened, `performance.now()`, or Infinity. */
  nextPumpAt(): number
  /** Starts nothing more. */
  stop(): void
  /** Ends the calls under way. */
  abort(reason: Error): void
  /** Resolves when no call is under way. */
  idle(): Promise<void>
}

const defaultBatchBytes = 8 * 1024 * 1024
const suspectPauseMs = 500
/** A call that takes longer, in milliseconds, gives its worker's place to another; so many of them at the most. */
const slowCallMs = 1_000
const slowCallsPerWorker = 4

/** Calls to one destination that may be under way at once, slow ones included. */
export function mostCalls(workers: number): number {
  return workers * (1 + slowCallsPerWorker)
}

export function createDispatcher(options: DispatcherOptions): Dispatcher {
  const { backlog, settler, outcomes, destinations, tuning, telemetry, isOurs } = options
  const deadAfter = deadAfterCrashes(tuning.maxAttempts)
  const abortion = createSharedAbort()
  let active = 0
  let stopped = false
  /** A group of suspects is being handled. */
  let suspecting = false
  /** Nothing else may be started: suspects with a death on record must be the only ones under way. */
  let alone = false
  let suspectsAt = 0
  let onIdle: (() => void)[] = []

  function ready(aggregate: Aggregate): void {
    const head = aggregate.queue[0]!
    const { outcome } = head
    if (outcome.destination !== null && head.crashes < deadAfter) {
      const destination = destinations.get(outcome.destination)!
      const withCare = aggregate.bucket.suspects > 0 || head.crashes > 0
      ;(withCare ? destination.suspect : destination.ready).push(aggregate)
      return
    }
    backlog.takeHead(aggregate, 1)
    outcomes.bury(
      head,
      outcome.destination === null
        ? errorText(outcome.error)
        : `publishing it ended the relay's process ${head.crashes + 1} times in a row`,
    )
  }

  function pump(): void {
    if (stopped) return
    const now = performance.now()
    if (!suspecting) alone = false
    for (const destination of destinations.values()) {
      if (!suspecting && destination.suspect.size > 0 && now >= suspectsAt) startSuspects(destination, now)
    }
    for (const destination of destinations.values()) {
      while (!alone && destination.active < allowedCalls(destination, now, tuning.workers)) {
        const batch = collect(destination, destination.ready, batchLimit(destination))
        if (batch.length === 0) break
        void run(destination, batch)
      }
    }
  }

  function batchLimit({ circuit, publisher }: Destination): number {
    return circuit.open ? 1 : Math.min(tuning.batchSize, publisher.capabilities.maxBatchSize ?? Infinity)
  }

  /** Takes heads off a queue for one call; of one aggregate more than one only where its order is kept. */
  function collect(destination: Destination, queue: Fifo<Aggregate>, limit: number, crashes = 0): Entry[] {
    const { ordering, maxBatchBytes = defaultBatchBytes } = destination.publisher.capabilities
    const batch: Entry[] = []
    const left: Aggregate[] = []
    let bytes = 0
    for (let tries = queue.size; tries > 0 && batch.length < limit; tries--) {
      const aggregate = queue.shift()!
      const head = aggregate.queue[0]
      if (aggregate.state !== 'ready' || head === undefined || aggregate.bucket.lost) continue
      if (
        head.outcome.destination !== destination.name ||
        (head.crashes > 0 && queue === destination.ready)
      ) {
        // A retried dead letter came to stand before the event that made it ready.
        ready(aggregate)
        continue
      }
      const fits =
        isOurs(aggregate.bucket.bucket) &&
        !aggregate.bucket.draining &&
        head.crashes <= crashes &&
        (batch.length === 0 || (head.exceptions < 2 && bytes + head.outcome.bytes <= maxBatchBytes))
      if (!fits) {
        left.push(aggregate)
        continue
      }
      let count = 1
      bytes += head.outcome.bytes
      const follows =
        ordering === 'batch' &&
        queue === destination.ready &&
        aggregate.failing === null &&
        head.exceptions < 2
      while (follows && batch.length + count < limit) {
        const next = aggregate.queue[count]
        if (next === undefined || !goesWith(head, next) || bytes + next.outcome.bytes > maxBatchBytes) break
        bytes += next.outcome.bytes
        count++
      }
      for (const entry of backlog.takeHead(aggregate, count)) batch.push(entry)
      if (head.exceptions >= 2) break
    }
    for (const aggregate of left) queue.push(aggregate)
    return batch
  }

  /** Events that may have killed a relay: first put on record, then tried, one group at a time. */
  function startSuspects(destination: Destination, now: number): void {
    if (destination.active >= allowedCalls(destination, now, tuning.workers)) return
    const crashes = destination.suspect.peek()?.queue[0]?.crashes ?? 0
    alone = crashes > 0
    if (alone && active > 0) return
    const size = Math.min(
      suspectGroupSize(crashes, { deadAfter, batchSize: tuning.batchSize }),
      batchLimit(destination),
    )
    const group = collect(destination, destination.suspect, size, crashes)
    if (group.length === 0) {
      alone = false
      return
    }
    suspecting = true
    void runSuspects(destination, group)
  }

  async function runSuspects(destination: Destination, group: readonly Entry[]): Promise<void> {
    let recorded: readonly Entry[] = []
    destination.active++
    active++
    try {
      recorded = await settler.suspect(group)
      for (const entry of recorded) entry.crashes++
    } catch (error) {
      suspectsAt = performance.now() + suspectPauseMs
      telemetry.emit('loop.failed', { error: errorText(error) })
    }
    destination.active--
    active--
    const kept = new Set(recorded)
    outcomes.putBack(group.filter((entry) => !kept.has(entry)))
    // That took its time: whoever stood still meanwhile may have lost them, and whoever stops sends nothing more.
    const ours: Entry[] = []
    for (const entry of recorded) {
      if (!stopped && isOurs(entry.aggregate.bucket.bucket)) ours.push(entry)
      else settler.settle({ kind: 'survived', entry, crashes: entry.crashes - 1 })
    }
    if (ours.length > 0) {
      await call(destination, ours)
      // Their deaths on record go with their settlement: the next group may be the one that kills.
      await settler.flushed()
    }
    suspecting = false
    afterCall()
  }

  async function run(destination: Destination, batch: readonly Entry[]): Promise<void> {
    await call(destination, batch)
    afterCall()
  }

  async function call(destination: Destination, batch: readonly Entry[]): Promise<void> {
    destination.active++
    active++
    const attempt: Call = {
      destination,
      batch,
      startedAt: performance.now(),
      confirmed: { early: new Set(), latenciesMs: [] },
    }
    const messages = batch.map(({ outcome }) => {
      const message = outcome.destination === null ? null : outcome.message
      if (message === null) throw new Error('an event without a destination, or that is out, cannot be sent')
      return message
    })
    let isSlow = false
    const slow = setTimeout(() => {
      if (destination.circuit.open || destination.slow >= mostCalls(tuning.workers) - tuning.workers) return
      isSlow = true
      destination.slow++
      destination.active--
      pump()
    }, slowCallMs)
    const span = startRelaySpan({ destination: destination.name, messages })
    const outcome = await callPublisher(destination.publisher, messages, {
      timeoutMs: tuning.publishTimeoutMs,
      signal: abortion.signal,
      onPublished(index, receipt) {
        outcomes.confirmEarly(attempt, index, receipt)
        pump()
      },
    })
    span.end(errorOf(outcome))
    clearTimeout(slow)
    if (isSlow) destination.slow--
    else destination.active--
    active--
    outcomes.conclude(attempt, outcome)
  }

  function afterCall(): void {
    pump()
    options.onProgress()
    if (active > 0) return
    const waiting = onIdle
    onIdle = []
    for (const resolve of waiting) resolve()
  }

  /** Different aggregates stay to probe with: one event that resets the receiver must not pose as an outage. */
  function makeRoom(): void {
    for (const destination of destinations.values()) {
      const share = backlog.shares.of(destination.name)
      if (!backlog.shares.isAway(share) || share.events <= probesKept) continue
      const kept: Aggregate[] = []
      for (const queue of [destination.ready, destination.suspect]) {
        for (let left = queue.size; left > 0; left--) {
          const aggregate = queue.shift()!
          if (aggregate.state !== 'ready' || aggregate.bucket.lost) continue
          if (kept.length === probesKept) {
            backlog.shed(aggregate)
            continue
          }
          backlog.trim(aggregate)
          kept.push(aggregate)
          queue.push(aggregate)
        }
      }
    }
  }

  function sumOf(of: (destination: Destination) => number): number {
    let sum = 0
    for (const destination of destinations.values()) sum += of(destination)
    return sum
  }

  return {
    pump,
    ready,
    makeRoom,
    get active() {
      return active
    },
    get startable() {
      return sumOf((destination) => (destination.circuit.open ? 0 : queued(destination)))
    },
    get waiting() {
      return sumOf(queued) + backlog.parked
    },
    nextPumpAt() {
      let next = Infinity
      for (const { circuit, ready: queue, suspect, active: calls } of destinations.values()) {
        if (circuit.open && calls === 0 && queue.size + suspect.size > 0)
          next = Math.min(next, circuit.probeAt)
        if (!suspecting && suspect.size > 0 && suspectsAt > performance.now())
          next = Math.min(next, suspectsAt)
      }
      return next
    },
    stop() {
      stopped = true
    },
    abort: (reason) => abortion.abort(reason),
    idle: () => (active === 0 ? Promise.resolve() : new Promise((resolve) => onIdle.push(resolve))),
  }
}

function queued({ ready, suspect }: Destination): number {
  return ready.size + suspect.size
}

/** Order holds within one call only for events of one topic; suspects and late ones go by themselves. */
function goesWith(
  head: Entry,
  next: Entry,
): next is Entry & { outcome: { destination: string; bytes: number } } {
  const [first, second] = [head.outcome, next.outcome]
  return (
    first.destination !== null &&
    second.destination === first.destination &&
    second.message?.topic === first.message?.topic &&
    next.notBefore <= head.notBefore &&
    next.crashes === 0 &&
    next.exceptions < 2
  )
}
