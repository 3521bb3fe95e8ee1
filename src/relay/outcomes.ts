import type { EventReference, Telemetry } from '../telemetry/events.ts'
import { backoffMs } from '../pause.ts'
import type { Aggregate, Entry, Failing } from './aggregate.ts'
import type { Backlog } from './backlog.ts'
import { type Destination, noteFailure, noteSuccess } from './destination.ts'
import { type FailureKind, judge, kindOf } from './failure.ts'
import type { RelayTuning } from './options.ts'
import { type CallOutcome, failureOfCall } from './publish-call.ts'
import { answerOf, requestedPauseMs } from './publish-result.ts'
import { type Settlement, errorText } from './settlement.ts'
import type { Settler } from './settler.ts'

export interface OutcomesOptions {
  backlog: Backlog
  settler: Settler
  tuning: Readonly<RelayTuning>
  telemetry: Telemetry
  /** Milliseconds to add to this machine's clock for the database's. */
  clockOffsetMs: () => number
  /** A bucket is to be read from its start: a reader that sleeps must look. */
  onRewound: () => void
  /** Something was settled: there may be room in memory, or an aggregate that goes on. */
  onProgress: () => void
}

/** One call of a publisher. */
export interface Call {
  readonly destination: Destination
  readonly batch: readonly Entry[]
  /** `performance.now()` */
  readonly startedAt: number
  /** What was confirmed so far: before the end of the call, and the milliseconds from insert to confirmation of all. */
  readonly confirmed: { readonly early: Set<Entry>; readonly latenciesMs: number[] }
}

/** What happens after a call: settlements, and whether each aggregate goes on, waits or stops. */
export interface Outcomes {
  conclude(call: Call, outcome: CallOutcome): void
  /** A message was confirmed while others of its call are still under way. */
  confirmEarly(call: Call, index: number, receipt: string | undefined): void
  /** Makes an event a dead letter that never reached a publisher. */
  bury(entry: Entry, error: string): void
  /** Events that were taken but not sent go back. */
  putBack(entries: readonly Entry[]): void
  /** A settlement is in the table. */
  settled(settlement: Settlement): void
  /** A settlement changed nothing, since the bucket belongs to another relay. */
  dropped(settlement: Settlement): void
  /** Only the table knows what became of a settlement: its event is read again. */
  outdated(settlement: Settlement): void
}

/** So many different events in a row, refused with one answer and none published: the destination is wrong. */
const refusalsForOutage = 5

/** What the column holds: a plain INSERT may have set it to anything. */
const mostAttempts = 2 ** 31 - 1

/** `go`: the event is at the head of its aggregate again; `settling`: the table comes first. */
type Step = 'go' | 'settling'

export function createOutcomes(options: OutcomesOptions): Outcomes {
  const { backlog, settler, tuning, telemetry } = options

  function conclude(call: Call, outcome: CallOutcome): void {
    const { destination, batch, startedAt, confirmed } = call
    const now = performance.now()
    const clockMs = databaseClockMs()
    const results = 'results' in outcome ? outcome.results : []
    // Such an end says something about an event only if no other is left that it may be about.
    const shared = !('results' in outcome) && batch.length - confirmed.early.size > 1
    if (results.some((result) => result.status === 'published')) proveAlive(destination, startedAt, now)
    for (let start = 0, end = 0; start < batch.length; start = end) {
      const { aggregate } = batch[start]!
      while (batch[end]?.aggregate === aggregate) end++
      let step: Step | undefined
      let left = false
      const back: Entry[] = []
      for (let i = start; i < end; i++) {
        const entry = batch[i]!
        if (confirmed.early.has(entry)) continue
        left = true
        const result = results[i]
        if (result?.status === 'published') {
          confirm(call, entry, result.receipt, clockMs)
        } else if (step !== undefined) {
          back.push(entry)
        } else {
          step =
            'threw' in outcome && shared
              ? onBatchException(entry)
              : onFailure(call, entry, result ?? failureOfCall(outcome), shared, now)
          if (step === 'go') back.push(entry)
        }
      }
      backlog.putBack(aggregate, back)
      if (left && step !== 'settling') goOn(aggregate, now)
    }
    const { latenciesMs } = confirmed
    telemetry.emit('batch.finished', {
      destination: destination.name,
      durationMs: now - startedAt,
      published: latenciesMs.length,
      failed: batch.length - latenciesMs.length,
      latenciesMs,
    })
  }

  /** One message of a call that goes on is out already: its aggregate goes on too. */
  function confirmEarly(call: Call, index: number, receipt: string | undefined): void {
    const entry = call.batch[index]
    // Where a call may hold more than one event of an aggregate, all of its results belong together.
    if (entry === undefined || call.destination.publisher.capabilities.ordering === 'batch') return
    if (call.confirmed.early.has(entry)) return
    call.confirmed.early.add(entry)
    const now = performance.now()
    proveAlive(call.destination, call.startedAt, now)
    confirm(call, entry, receipt, databaseClockMs())
    goOn(entry.aggregate, now)
  }

  function confirm(call: Call, entry: Entry, receipt: string | undefined, clockMs: number): void {
    const { aggregate } = entry
    if (aggregate.failing?.eventId === entry.event.id) aggregate.failing = null
    call.confirmed.latenciesMs.push(Math.max(0, clockMs - Number(entry.event.createdAtMicros) / 1000))
    backlog.published(entry)
    settler.settle({ kind: 'published', entry, receipt: receipt ?? null })
  }

  function proveAlive(destination: Destination, startedAt: number, now: number): void {
    noteSuccess(destination, now)
    destination.lastSuccessStartedAt = Math.max(destination.lastSuccessStartedAt, startedAt)
    destination.refusals = null
    destination.circuit.answered(startedAt, now, null)
  }

  function goOn(aggregate: Aggregate, now: number): void {
    if (aggregate.state !== 'busy') return
    aggregate.state = 'idle'
    backlog.advance(aggregate, now)
  }

  /** An exception says nothing about the single events: all of them again, then one by one. */
  function onBatchException(entry: Entry): Step {
    entry.exceptions++
    return survive(entry)
  }

  function onFailure(
    { destination, startedAt }: Call,
    entry: Entry,
    failure: { status: 'retry' | 'reject' | 'threw'; error: unknown; afterMs?: number },
    shared: boolean,
    now: number,
  ): Step {
    const { aggregate } = entry
    if (aggregate.bucket.lost) return 'go'
    if (aggregate.failing?.eventId !== entry.event.id) {
      aggregate.failing = { eventId: entry.event.id, since: now, lastAt: now, tries: 0 }
    }
    const { failing } = aggregate
    failing.tries++
    const error = errorText(failure.error)
    const kind = kindOf(failure.status, failure.error)
    const afterMs = failure.afterMs ?? requestedPauseMs(failure.error)
    if (
      kind === 'refused' &&
      isWrongDestination(destination, entry, startedAt, now, error, answerOf(failure.error))
    ) {
      return survive(entry)
    }
    if (kind === 'explicit') {
      noteFailure(destination, entry.event.id, error, now)
      destination.refusals = null
      destination.circuit.answered(startedAt, now, null)
    }
    const verdict = judge({
      kind,
      othersGetThrough: othersGetThrough(destination, failing, kind),
      throttled: kind === 'unavailable' && afterMs !== undefined,
      failingForMs: now - failing.since,
      attempts: entry.event.attempts,
      maxAttempts: tuning.maxAttempts,
      outageGraceMs: tuning.outageGraceMs,
    })
    if (verdict !== 'outage' && shared) {
      // One of them it is. It will be found out, with the evidence that there is, when each goes alone.
      entry.exceptions = 2
      return survive(entry)
    }
    failing.lastAt = now
    if (verdict === 'outage') {
      destination.circuit.failed(startedAt, now, { error, ...(afterMs === undefined ? {} : { afterMs }) })
      return survive(entry)
    }
    const final = kind === 'refused' || kind === 'undeliverable'
    const counted = verdict === 'count' || (verdict === 'dead' && !final) ? 1 : 0
    const attempts = Math.min(entry.event.attempts + counted, mostAttempts)
    if (verdict === 'dead') {
      settler.settle({ kind: 'dead', entry, attempts, holds: tuning.afterDeadLetter === 'hold', error })
      return 'settling'
    }
    const pauseMs = backoffMs(failing.tries, {
      baseMs: tuning.retryBaseMs,
      maxMs: tuning.retryMaxMs,
      atLeastMs: afterMs ?? 0,
    })
    settler.settle({ kind: 'failed', entry, attempts, pauseMs, error })
    telemetry.emit('event.failed', {
      ...referenceOf(entry),
      destination: destination.name,
      error,
      counted: verdict === 'count',
      retryInMs: pauseMs,
    })
    return 'settling'
  }

  /** True when this refusal belongs to a row of equal ones: then the destination is wrong, not the event. */
  function isWrongDestination(
    destination: Destination,
    entry: Entry,
    startedAt: number,
    now: number,
    error: string,
    answer: string,
  ): boolean {
    destination.circuit.answered(startedAt, now, answer)
    if (destination.circuit.open) {
      destination.circuit.failed(startedAt, now, { error, answer })
      return true
    }
    if (destination.refusals?.answer !== answer) destination.refusals = { answer, entries: [] }
    const { entries } = destination.refusals
    entries.push(entry)
    if (entries.length < refusalsForOutage) return false
    destination.refusals = null
    destination.circuit.failed(startedAt, now, { error, answer })
    void restore(destination, entries.slice(0, -1), error)
    return true
  }

  async function restore(destination: Destination, dead: readonly Entry[], error: string): Promise<void> {
    destination.restoring = true
    try {
      const count = await settler.restore(dead)
      const now = performance.now()
      for (const { aggregate } of dead) backlog.unhold(aggregate, now)
      for (const bucket of new Set(dead.map((entry) => entry.aggregate.bucket))) backlog.rewind(bucket, now)
      telemetry.emit('event.restored', { destination: destination.name, count, error })
    } catch (failure) {
      // They stay dead letters, where people see them and can retry them.
      telemetry.emit('loop.failed', { error: errorText(failure) })
    }
    destination.restoring = false
    options.onRewound()
    options.onProgress()
  }

  /** A death that was put on record beforehand did not come: that is taken back before anything else. */
  function survive(entry: Entry): Step {
    if (entry.crashes === 0) return 'go'
    settler.settle({ kind: 'survived', entry, crashes: 0 })
    return 'settling'
  }

  function bury(entry: Entry, error: string): void {
    const holds = tuning.afterDeadLetter === 'hold'
    settler.settle({ kind: 'dead', entry, attempts: entry.event.attempts, holds, error })
  }

  function settled(settlement: Settlement): void {
    const { entry } = settlement
    const { aggregate } = entry
    switch (settlement.kind) {
      case 'published':
        backlog.settled(entry)
        break
      case 'survived':
        entry.crashes = 0
        backlog.putBack(aggregate, [entry])
        goOn(aggregate, performance.now())
        break
      case 'failed':
        backlog.release(entry)
        backlog.sleep(aggregate, performance.now() + settlement.pauseMs)
        break
      case 'dead':
        backlog.settled(entry)
        aggregate.failing = null
        telemetry.emit('event.dead', {
          ...referenceOf(entry),
          destination: entry.outcome.destination,
          error: settlement.error,
          holds: settlement.holds,
        })
        if (settlement.holds) backlog.hold(aggregate)
        else goOn(aggregate, performance.now())
        break
    }
  }

  function outdated({ entry }: Settlement): void {
    backlog.release(entry)
    backlog.sleep(entry.aggregate, performance.now())
  }

  function putBack(entries: readonly Entry[]): void {
    const now = performance.now()
    for (const entry of entries) {
      backlog.putBack(entry.aggregate, [entry])
      goOn(entry.aggregate, now)
    }
  }

  function databaseClockMs(): number {
    return Date.now() + options.clockOffsetMs()
  }

  const dropped = ({ entry }: Settlement) => backlog.drop(entry)
  return { conclude, confirmEarly, bury, putBack, settled, dropped, outdated }
}

/**
 * An outage that comes after others got through must not be counted with the evidence from before it: an open circuit
 * says that nobody has got through since it opened, and a destination that calls itself away needs new evidence.
 */
function othersGetThrough(destination: Destination, failing: Failing, kind: FailureKind): boolean {
  const { circuit, lastSuccessStartedAt } = destination
  return !circuit.open && lastSuccessStartedAt > (kind === 'unavailable' ? failing.lastAt : failing.since)
}

function referenceOf({ event }: Entry): EventReference {
  return {
    eventId: event.id,
    eventType: event.eventType,
    aggregateType: event.aggregateType,
    aggregateId: event.aggregateId,
    attempt: event.attempts + 1,
  }
}
