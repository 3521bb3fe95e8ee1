import { Gauge, type Registry } from 'prom-client'

/** What the database tells about one consumer. */
export interface ConsumerSample {
  readonly name: string
  /** What its newest results of the last hour were, at most 10 000 of them. */
  readonly results: {
    readonly applied: number
    readonly stale: number
    readonly rejected: number
    readonly parked: number
    /** The time that these results took: 3 600, or less when there were more of them. */
    readonly overSeconds: number
  }
  /** Counted up to 10 000. */
  readonly deadLetters: number
  /** Events that wait for the revisions before them; counted up to 10 000. */
  readonly parked: number
  /**
   * How long ago the oldest event was handed over that it handles and has no result of yet, in seconds; 0 when it has
   * a result of each. Null when it cannot be known: the outbox is elsewhere, it takes whatever type comes (`*`), or
   * there was too much to look through.
   */
  readonly lagSeconds: number | null
}

/** What lies before the consumers, from the newest sample; absent while that is unknown or too old. */
export function addConsumerSampleMetrics(
  registry: Registry,
  fresh: () => readonly ConsumerSample[] | null,
): void {
  const perConsumer = (name: string, help: string, read: (sample: ConsumerSample) => number | null) =>
    new Gauge({
      ...{ name, help, labelNames: ['consumer'], registers: [registry] },
      collect() {
        this.reset()
        for (const consumer of fresh() ?? []) {
          const value = read(consumer)
          if (value !== null) this.set({ consumer: consumer.name }, value)
        }
      },
    })
  perConsumer(
    'outbox_consumer_lag_seconds',
    'How long the oldest event that was handed over waits for its result; 0 when none does, absent when unknown.',
    ({ lagSeconds }) => lagSeconds,
  )
  perConsumer(
    'outbox_consumer_dead_letters',
    'Messages that a consumer gave up and nobody has put back; counted up to 10000.',
    ({ deadLetters }) => deadLetters,
  )
  perConsumer(
    'outbox_consumer_parked_events',
    'Events that wait for the revisions before them; counted up to 10000.',
    ({ parked }) => parked,
  )
}
