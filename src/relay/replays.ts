import type { Connection } from '../database/connection.ts'
import { describeError } from '../errors.ts'
import type { Telemetry } from '../telemetry/events.ts'
import type { OwnedBucket, Prepared } from './aggregate.ts'
import type { Destination } from './destination.ts'
import { kindOf } from './failure.ts'
import type { RelayTuning } from './options.ts'
import { backoffMs, pause, retryPauseMs } from '../pause.ts'
import { type Row, toEvent } from './polling-source.ts'
import { callPublisher, failureOfCall } from './publish-call.ts'
import { requestedPauseMs } from './publish-result.ts'
import { errorText } from './settlement.ts'
import type { SourceEvent } from './source.ts'
import type { Statements } from './statements.ts'

export interface ReplayerOptions {
  read: Connection
  mark: Connection
  statements: Statements
  relayId: string
  buckets: () => Iterable<OwnedBucket>
  /** False when the lease of a bucket may have run out on this side's clock. */
  isOurs: (bucket: number) => boolean
  prepare: (event: SourceEvent) => Prepared
  destinations: ReadonlyMap<string, Destination>
  tuning: Readonly<RelayTuning>
  telemetry: Telemetry
  onError: (error: unknown) => void
}

/** Sends deliberate replays: events that were published and that somebody decided to repeat. */
export interface Replayer {
  /** Looks once; answers how many went out. */
  round(signal: AbortSignal): Promise<number>
  /** Looks again and again until the signal. */
  run(signal: AbortSignal): Promise<void>
}

/** How often to look for replays, in milliseconds: people ask for them. */
const lookEveryMs = 1_000
const errorPauseMaxMs = 5_000

/**
 * Replays go out one at a time, beside the events: they are no first deliveries, so the order of first deliveries does
 * not depend on them, and a long row of them must not keep events waiting. The same fence as for settlements: a relay
 * that lost the bucket records nothing, and the next owner sends the replay again, with the same number.
 */
export function createReplayer(options: ReplayerOptions): Replayer {
  const { read, mark, statements, relayId, destinations, tuning, telemetry } = options

  let underWay: Promise<number> | undefined

  async function look(signal: AbortSignal): Promise<number> {
    const owned = new Map<number, OwnedBucket>()
    for (const bucket of options.buckets())
      if (bucket.opened && !bucket.draining) owned.set(bucket.bucket, bucket)
    if (owned.size === 0) return 0
    const { rows } = await read.query<[...Row, number: string, tries: string]>(
      statements.readReplays,
      [[...owned.keys()]],
      { rowMode: 'text' },
    )
    let sent = 0
    for (const row of rows) {
      const [number, tries] = row.slice(-2).map(Number) as [number, number]
      const event = { ...toEvent(row as unknown as Row), replay: number } as SourceEvent
      const bucket = owned.get(event.bucket)!
      if (bucket.lost || !options.isOurs(event.bucket)) continue
      const outcome = await send(event, tries, signal)
      if (signal.aborted) break
      if (outcome === undefined) continue
      await recordUntilDone(event, number, bucket, outcome, signal)
      if (outcome.state === 'relayed') sent++
    }
    return sent
  }

  interface Outcome {
    state: 'relayed' | 'pending' | 'dead'
    attempts: number
    pauseMs: number | null
    receipt: string | null
    error: string | null
  }

  /** Undefined: its destination is away, it stays as it is. */
  async function send(event: SourceEvent, tries: number, signal: AbortSignal): Promise<Outcome | undefined> {
    const prepared = options.prepare(event)
    if (prepared.destination === null)
      return {
        state: 'dead',
        attempts: tries,
        pauseMs: null,
        receipt: null,
        error: errorText(prepared.error),
      }
    const destination = destinations.get(prepared.destination)!
    if (destination.circuit.open) return undefined
    const outcome = await callPublisher(destination.publisher, [prepared.message], {
      timeoutMs: tuning.publishTimeoutMs,
      signal,
    })
    const result = 'results' in outcome ? outcome.results[0] : undefined
    if (result?.status === 'published')
      return {
        state: 'relayed',
        attempts: tries,
        pauseMs: null,
        receipt: result.receipt ?? null,
        error: null,
      }
    const { status, error: failure } = result ?? failureOfCall(outcome)
    const kind = kindOf(status, failure)
    const error = errorText(failure)
    if (kind === 'refused' || kind === 'undeliverable')
      return { state: 'dead', attempts: tries + 1, pauseMs: null, receipt: null, error }
    const counted = kind !== 'unavailable'
    const attempts = tries + (counted ? 1 : 0)
    const pauseMs = backoffMs(attempts + 1, {
      ...{ baseMs: tuning.retryBaseMs, maxMs: tuning.retryMaxMs },
      atLeastMs: requestedPauseMs(failure) ?? 0,
    })
    return {
      state: attempts >= tuning.maxAttempts ? 'dead' : 'pending',
      attempts,
      pauseMs,
      receipt: null,
      error,
    }
  }

  /** What went out must not go out again since this one statement failed. */
  async function recordUntilDone(
    event: SourceEvent,
    number: number,
    bucket: OwnedBucket,
    outcome: Outcome,
    signal: AbortSignal,
  ): Promise<void> {
    for (let failures = 0; !bucket.lost;) {
      try {
        return await record(event, number, bucket, outcome)
      } catch (error) {
        if (signal.aborted) throw error
        options.onError(error)
        await pause(retryPauseMs(failures++, errorPauseMaxMs), signal)
      }
    }
  }

  async function record(
    { id }: SourceEvent,
    number: number,
    { bucket, epoch }: OwnedBucket,
    { state, attempts, pauseMs, receipt, error }: Outcome,
  ): Promise<void> {
    const { rowCount } = await mark.query(statements.markReplay, [
      ...[relayId, [bucket], [epoch], id, number, state, attempts, pauseMs],
      ...[receipt === null ? null : describeError(receipt, 500), error],
    ])
    if (rowCount > 0) telemetry.emit('replay.sent', { eventId: id, number, state, error })
  }

  // Two at once would send the same replays.
  const round = (signal: AbortSignal) =>
    (underWay ??= look(signal).finally(() => {
      underWay = undefined
    }))

  return {
    round,
    async run(signal) {
      let failures = 0
      while (!signal.aborted) {
        try {
          await round(signal)
          failures = 0
          await pause(lookEveryMs, signal)
        } catch (error) {
          if (signal.aborted) return
          options.onError(error)
          await pause(retryPauseMs(failures++, errorPauseMaxMs), signal)
        }
      }
    },
  }
}
