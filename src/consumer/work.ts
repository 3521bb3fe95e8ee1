import { describeError } from '../errors.ts'
import { backoffMs, pause } from '../pause.ts'
import { brokerUnavailable, publishFailed } from '../publishing/publisher.ts'
import type { DeliveryAnswer } from '../publishing/source.ts'
import type { EventReference, Telemetry } from '../telemetry/events.ts'
import type { TryOutcome } from './attempt.ts'
import type { DatabaseWatch } from './database-watch.ts'
import { requestedPauseMs } from './failure.ts'
import type { Gate } from './gate.ts'
import type { Handler } from './handlers.ts'
import type { Job } from './job.ts'
import type { Keeper, KeptFacts } from './keeper.ts'
import type { ConsumerTuning } from './options.ts'

export interface WorkOptions<Tx> {
  tuning: ConsumerTuning
  attempt: (job: Job, handler: Handler<Tx>) => Promise<TryOutcome>
  keeper: Keeper
  database: DatabaseWatch
  gate: Gate
  telemetry: Telemetry
  /** Aborts when the consumer stops: nothing new begins. */
  stopping: AbortSignal
  /** Keeps an event until the revisions before it have come; see `projection.ts`. */
  park: (job: Job, error: unknown) => Promise<'parked' | 'ready'>
}

/** Failures in a row that do not count, until they do. */
const uncountedConflicts = 20
const uncountedLosses = 3

const errorLimit = 2_000

type Step = DeliveryAnswer | 'once more'

const done: DeliveryAnswer = Object.freeze({ status: 'done' })

/** Brings one event to its end: tries, waits, tries again, and gives up in the end. Never rejects. */
export function createWork<Tx>(options: WorkOptions<Tx>) {
  const { tuning, attempt, keeper, database, gate, telemetry, stopping, park } = options
  const { name: consumer } = tuning

  async function work(job: Job, handler: Handler<Tx>): Promise<DeliveryAnswer> {
    for (;;) {
      const interrupted = interruption(job)
      if (interrupted !== undefined) return again(0, brokerUnavailable(interrupted))
      let step: Step
      try {
        step = await once(job, handler)
      } catch (error) {
        // The consumer's own statements failed.
        step = await away(job, error)
      }
      if (step !== 'once more') return step
    }
  }

  function interruption({ delivery }: Job): string | undefined {
    if (stopping.aborted) return 'the consumer stops'
    return delivery.lost?.aborted === true ? 'the delivery was lost' : undefined
  }

  async function once(job: Job, handler: Handler<Tx>): Promise<Step> {
    const leave = await gate.enter(job.alone)
    let outcome: TryOutcome
    const started = performance.now()
    try {
      const interrupted = interruption(job)
      if (interrupted !== undefined) return await giveBack(job, interrupted)
      outcome = await attempt(job, handler)
    } finally {
      leave()
    }
    if (outcome.status === 'failed') return failed(job, outcome)
    database.works()
    const result = outcome.status
    // Who handled a duplicate may have died before it could forget its note.
    const isLeft = result === 'duplicate' && job.delivery.redelivered
    if (job.kept || job.noted || attemptOf(outcome) > 1 || isLeft) {
      // The event is handled whatever becomes of this; the next delivery tidies up.
      await forget(job).catch((error: unknown) => database.failed(error))
    }
    telemetry.emit('consumer.handled', {
      ...reference(job),
      consumer,
      result,
      durationMs: performance.now() - started,
      latencyMs: latencyOf(job),
    })
    return done
  }

  function forget({ event, rebuild }: Job): Promise<void> {
    return rebuild === undefined ? keeper.forget(event.id) : keeper.forgetRebuild(event.id)
  }

  async function failed(job: Job, { failure, error }: TryOutcome & { status: 'failed' }): Promise<Step> {
    switch (failure) {
      case 'stopped':
        return giveBack(job, 'the consumer stops')
      case 'database':
        return away(job, error)
      case 'conflict':
        if (++job.conflicts > uncountedConflicts) return counted(job, error)
        await pause(Math.random() * 10 * job.conflicts, stopping)
        return 'once more'
      case 'lost':
        if (++job.losses > uncountedLosses) return counted(job, error)
        return away(job, error)
      case 'alone':
        job.alone = true
        // While it waits for its turn, the death of another must not be put down to it.
        await keeper.takeBackNote(job.event.id)
        job.noted = false
        return 'once more'
      case 'crashed':
        return dead(job, describeError(error, errorLimit))
      case 'early':
        return (await park(job, error)) === 'parked' ? done : 'once more'
      case 'refused':
        return dead(job, describeError(error, errorLimit), job.attempts + 1)
      case 'failed':
        return counted(job, error)
    }
  }

  async function counted(job: Job, error: unknown): Promise<Step> {
    const reason = describeError(error, errorLimit)
    const recorded = await keeper.recordFailure(facts(job), reason)
    job.attempts = Math.max(job.attempts + 1, recorded)
    job.noted = false
    if (job.attempts >= tuning.maxAttempts) return dead(job, reason, job.attempts)
    const { retryBaseMs: baseMs, retryMaxMs: maxMs } = tuning
    const retryInMs = backoffMs(job.attempts, { baseMs, maxMs, atLeastMs: requestedPauseMs(error) })
    telemetry.emit('consumer.failed', {
      ...{ ...reference(job), attempt: job.attempts },
      ...{ consumer, error: reason, counted: true, retryInMs },
    })
    if (!job.holding) return again(retryInMs, publishFailed(`the handler failed: ${reason}`))
    await pauseUnlessLost(job, retryInMs)
    return 'once more'
  }

  async function dead(job: Job, error: string, attempts = job.attempts): Promise<Step> {
    const { projection } = job.rebuild ?? {}
    const buried = await keeper.bury(facts(job), job.delivery, { error, attempts, projection })
    if (buried) {
      telemetry.emit('consumer.dead', { ...{ ...reference(job), attempt: attempts }, consumer, error })
    }
    return done
  }

  /** No attempt is counted. Where somebody waits for the answer he gets it at once. */
  async function away(job: Job, error: unknown): Promise<Step> {
    database.failed(error)
    if (!job.holding)
      return again(1_000, brokerUnavailable(`the database is away: ${describeError(error, 300)}`))
    await database.back(job.delivery.lost)
    return 'once more'
  }

  async function giveBack(job: Job, reason: string): Promise<DeliveryAnswer> {
    if (job.noted) await keeper.takeBackNote(job.event.id)
    return again(0, brokerUnavailable(reason))
  }

  function pauseUnlessLost({ delivery }: Job, ms: number): Promise<void> {
    return pause(ms, stopping, ...(delivery.lost === undefined ? [] : [delivery.lost]))
  }

  return work
}

function again(afterMs: number, error: Error): DeliveryAnswer {
  return { status: 'again', afterMs, error }
}

/** A first try leaves nothing behind that would have to be forgotten. */
function attemptOf(outcome: TryOutcome): number {
  return 'attempt' in outcome ? outcome.attempt : 1
}

function facts({ event }: Job): KeptFacts {
  const { id, type, aggregateType, aggregateId, revision, replay } = event
  return { eventId: id, type, aggregateType, aggregateId, revision, replay }
}

function reference({ event, attempts }: Job): EventReference {
  const { id, type, aggregateType, aggregateId } = event
  return { eventId: id, eventType: type, aggregateType, aggregateId, attempt: attempts + 1 }
}

/** From the insert of the event to now, by the clocks of two machines; null when it is not known. */
function latencyOf({ event, kept }: Job): number | null {
  const created = kept || event.createdAt === null ? Number.NaN : Date.parse(event.createdAt)
  return Number.isFinite(created) ? Math.max(0, Date.now() - created) : null
}
