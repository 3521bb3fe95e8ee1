import { integer, object, oneOf } from '../options.ts'
import type { AfterDeadLetter } from '../types.ts'

/** How the relay works; each with its default and range in `relayDefaults` and `docs/reference/configuration.md`. */
export interface RelayTuning {
  /** Most messages for one `publish()` call. Default 200, 1 to 10 000. */
  batchSize: number
  /** `publish()` calls under way at once for each destination; one that takes over a second makes room for another. Default 2, 1 to 64. */
  workers: number
  /** Counted failures, or deaths of the process (at least two), after which an event becomes a dead letter. Default 8, 1 to 1 000. */
  maxAttempts: number
  /** Default `continue`. */
  afterDeadLetter: AfterDeadLetter
  /**
   * What becomes of the row of a published event. `mark`: it stays until retention; `delete`: it is removed at once,
   * but for publication intents, whose rows diagnosis needs. Default `mark`.
   */
  settle: 'mark' | 'delete'
  /** Limit for one `publish()` call, in milliseconds. Default 10 000, 10 to 600 000. */
  publishTimeoutMs: number
  /** How long a bucket stays with a relay that says nothing, in milliseconds. Default 10 000, 1 000 to 600 000. */
  leaseMs: number
  /** Longest pause between two looks for work when idle without notifications, in milliseconds. Default 1 000, 1 to 60 000. */
  pollIntervalMs: number
  /** `auto`: sleeping relays are woken by NOTIFY; `poll`: no notifications at all. Default `auto`. */
  wakeup: 'auto' | 'poll'
  /** First pause after a counted failure, in milliseconds; doubles each time, full jitter. Default 1 000, 1 to 3 600 000. */
  retryBaseMs: number
  /** Longest pause between two tries of one event, in milliseconds. Default 300 000, 1 to 86 400 000. */
  retryMaxMs: number
  /** Longest pause between two probes of a destination that is away, in milliseconds. Default 30 000, 1 to 3 600 000. */
  probeMaxMs: number
  /** After how long an explicit answer about an event (500, a nack) counts although no other event gets through, in milliseconds. Default 900 000, 0 to 86 400 000. */
  outageGraceMs: number
  /** Grace for work under way at a clean stop, in milliseconds. Default 15 000, 0 to 600 000. */
  stopGraceMs: number
}

export const relayDefaults: Readonly<RelayTuning> = Object.freeze({
  batchSize: 200,
  workers: 2,
  maxAttempts: 8,
  afterDeadLetter: 'continue',
  settle: 'mark',
  publishTimeoutMs: 10_000,
  leaseMs: 10_000,
  pollIntervalMs: 1_000,
  wakeup: 'auto',
  retryBaseMs: 1_000,
  retryMaxMs: 300_000,
  probeMaxMs: 30_000,
  outageGraceMs: 900_000,
  stopGraceMs: 15_000,
})

const hourMs = 3_600_000
const dayMs = 24 * hourMs

/** Ranges, defaults and texts of {@link RelayTuning}; `resolveOptions(relaySpec, tuning, { path: 'relay' })` checks them. */
export const relaySpec = object({
  batchSize: integer({ min: 1, max: 10_000 })
    .default(relayDefaults.batchSize)
    .describe('Most messages for one call of a publisher.'),
  workers: integer({ min: 1, max: 64 })
    .default(relayDefaults.workers)
    .describe('Calls of a publisher that are under way at once, for each destination.'),
  maxAttempts: integer({ min: 1, max: 1_000 })
    .default(relayDefaults.maxAttempts)
    .describe(
      'Counted failures after which an event becomes a dead letter. An outage of the destination counts nothing. Deaths of the process while it is published are counted apart: as many, but at least two.',
    ),
  afterDeadLetter: oneOf('continue', 'hold')
    .default(relayDefaults.afterDeadLetter)
    .describe(
      'What a dead letter does to the later events of its aggregate: `continue` lets them flow, `hold` keeps them back until it is retried or discarded.',
    ),
  settle: oneOf('mark', 'delete')
    .default(relayDefaults.settle)
    .describe(
      'What becomes of the row of a published event: `mark` keeps it for `retention`; `delete` removes it at once, for those who want no history. Publication intents (with a `revision`) are always marked. Not together with `publications` or `retention.archive`.',
    ),
  publishTimeoutMs: integer({ min: 10, max: 600_000 })
    .default(relayDefaults.publishTimeoutMs)
    .describe('Limit for one call of a publisher.'),
  leaseMs: integer({ min: 1_000, max: 600_000 })
    .default(relayDefaults.leaseMs)
    .describe(
      'How long a bucket stays with a relay that says nothing. It is renewed while its work is in flight.',
    ),
  pollIntervalMs: integer({ min: 1, max: 60_000 })
    .default(relayDefaults.pollIntervalMs)
    .describe('Longest pause between two looks for work when idle and without notifications.'),
  wakeup: oneOf('auto', 'poll')
    .default(relayDefaults.wakeup)
    .describe(
      '`auto`: sleeping relays are woken by NOTIFY. `poll`: no notifications at all; needed where writers use PREPARE TRANSACTION.',
    ),
  retryBaseMs: integer({ min: 1, max: hourMs })
    .default(relayDefaults.retryBaseMs)
    .describe('First pause after a counted failure; doubles each time, with full jitter.'),
  retryMaxMs: integer({ min: 1, max: dayMs })
    .default(relayDefaults.retryMaxMs)
    .describe('Longest pause between two tries of one event; it also caps `retryBaseMs`.'),
  probeMaxMs: integer({ min: 1, max: hourMs })
    .default(relayDefaults.probeMaxMs)
    .describe('Longest pause between two probes of a destination that is away.'),
  outageGraceMs: integer({ min: 0, max: dayMs })
    .default(relayDefaults.outageGraceMs)
    .describe(
      'How long an explicit answer about an event (500, a nack) may go on while no other event gets through, until it counts as an attempt all the same, whatever the number of aggregates that fail.',
    ),
  stopGraceMs: integer({ min: 0, max: 600_000 })
    .default(relayDefaults.stopGraceMs)
    .describe('Time for the work that is under way at a clean stop.'),
})
