import type { Connection } from '../database/connection.ts'
import { describeError } from '../errors.ts'
import type { Telemetry } from '../telemetry/events.ts'
import { type BackgroundService, createBackgroundService } from './background.ts'
import { nullIfDenied } from './consumers.ts'
import { takeConsumersSample } from './consumers-sample.ts'
import { createLatest } from './latest.ts'
import { type StoredSample, readSample, takeSample } from './sample.ts'
import { claimTask, finishTask } from './task-lease.ts'

export interface SamplerOptions {
  /** Best one of its own: a slow count then delays nobody. */
  db: Connection
  schema: string
  telemetry: Telemetry
  /** A UUID: the relay on whose behalf this one works. */
  relayId: string
  /** How often the outbox is counted, in milliseconds. Default: 5 000. */
  intervalMs?: number
}

export interface Sampler extends BackgroundService {
  /** The newest sample known here, whoever took it, with its present age; null when there is none. */
  latest(): StoredSample | null
}

/**
 * Counting may take at most one part in so many of the time: on a slow database it is done less often, but often
 * enough for the counts to be of use.
 */
const shareOfTime = 20
const longestPauseMs = 20_000

/**
 * Takes the sample of the outbox when it is this relay's turn, and reads what another one took otherwise: one relay
 * at a time counts for all. Emits `sample.taken`, and `sample.failed` once when it begins to fail.
 */
export function createSampler(options: SamplerOptions): Sampler {
  const { db, schema, telemetry, relayId, intervalMs = 5_000 } = options
  const task = {
    db,
    schema,
    name: 'sample',
    owner: relayId,
    leaseMs: Math.max(15_000, intervalMs * 2),
  } as const
  const latest = createLatest<StoredSample>()
  let failing = false

  async function run(): Promise<void> {
    try {
      const lastMs = latest.get()?.durationMs ?? 0
      // A little less than the pause: otherwise clocks that drift would skip every other turn.
      if (await claimTask(task, Math.max(intervalMs * 0.9, Math.min(lastMs * shareOfTime, longestPauseMs))))
        await take()
      else latest.remember(await readSample(db, schema))
      failing = false
    } catch (error) {
      if (!failing) telemetry.emit('sample.failed', { error: describeError(error, 500) })
      failing = true
    }
  }

  async function take(): Promise<void> {
    const started = performance.now()
    const sample = await takeSample(db, schema)
    const before = (await readSample(db, schema))?.consumerMarks ?? {}
    const seen = await nullIfDenied(() => takeConsumersSample(db, schema, before))
    const durationMs = performance.now() - started
    const beside = { durationMs, consumers: seen?.consumers ?? null, consumerMarks: seen?.marks ?? before }
    // The duration is kept with it, so that the next relay knows what counting costs.
    await finishTask(task, { ...sample, ...beside })
    latest.remember({ sample, ageSeconds: 0, ...beside })
    telemetry.emit('sample.taken', { ...sample, durationMs })
  }

  return {
    ...createBackgroundService({ intervalMs, run }),
    latest: latest.get,
  }
}
