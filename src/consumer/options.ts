import { type OptionsOf, integer, object, oneOf, string } from '../options.ts'

const hourMs = 3_600_000

/** How a consumer works: ranges, defaults and texts. */
export const consumerSpec = object({
  name: string({ maxLength: 100 }).describe(
    'The name under which the consumer remembers what it has handled: one for each service, never changed.',
  ),
  concurrency: integer({ min: 1, max: 1_000 })
    .default(10)
    .describe('Handlers that run at once, each for another aggregate; each takes a connection.'),
  maxAttempts: integer({ min: 1, max: 1_000 })
    .default(8)
    .describe('Counted failures after which an event becomes a dead letter of this consumer.'),
  retryBaseMs: integer({ min: 1, max: hourMs })
    .default(1_000)
    .describe('First pause after a counted failure; doubles each time, with full jitter.'),
  retryMaxMs: integer({ min: 1, max: 24 * hourMs })
    .default(60_000)
    .describe(
      'Longest pause between two tries of one event; the later events of its aggregate wait as well.',
    ),
  handlerTimeoutMs: integer({ min: 10, max: hourMs })
    .default(30_000)
    .describe('Limit for one run of a handler; then its transaction is rolled back and the try counts.'),
  unknownTypes: oneOf('skip', 'reject')
    .default('skip')
    .describe(
      'What becomes of an event whose type has no handler: `skip` acknowledges it and keeps nothing, `reject` makes it a dead letter.',
    ),
  isolation: oneOf('read committed', 'repeatable read', 'serializable')
    .optional()
    .describe("The isolation of the handlers' transactions. Default: that of the database role."),
  dedupeDays: integer({ min: 1, max: 3_650 })
    .default(30)
    .describe(
      'How long it is remembered that an event was handled; longer than the longest redelivery, see docs/guides/consumers.md.',
    ),
  pollIntervalMs: integer({ min: 10, max: hourMs })
    .default(5_000)
    .describe('Pause between two looks for dead letters that somebody put back, and for rebuilds.'),
  stopGraceMs: integer({ min: 0, max: 600_000 })
    .default(15_000)
    .describe('Time for the handlers that are under way at a clean stop.'),
})

export type ConsumerTuning = OptionsOf<typeof consumerSpec>
