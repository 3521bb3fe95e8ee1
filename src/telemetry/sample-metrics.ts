import { Gauge, type Registry } from 'prom-client'
import { type ConsumerSample, addConsumerSampleMetrics } from './consumer-sample-metrics.ts'
import type { OutboxSample } from './events.ts'

/** A sample older than this tells nothing about now. */
const staleAfterSeconds = 30

export interface KnownSample {
  readonly sample: OutboxSample
  readonly ageSeconds: number
  /** Of each consumer of the same database; null when that is not known. */
  readonly consumers?: readonly ConsumerSample[] | null
}

/** What lies in the outbox and before its consumers, from the newest sample; absent while unknown or too old. */
export function addSampleMetrics(registry: Registry, sample: () => KnownSample | null): void {
  const registers = [registry]
  const freshSample = () => {
    const known = sample()
    return known !== null && known.ageSeconds <= staleAfterSeconds ? known : null
  }
  const fresh = () => freshSample()?.sample ?? null
  addConsumerSampleMetrics(registry, () => freshSample()?.consumers ?? null)
  const fromSample = (name: string, help: string, read: (sample: OutboxSample) => number) =>
    new Gauge({
      name,
      help,
      registers,
      collect() {
        const known = fresh()
        if (known === null) this.remove()
        else this.set(read(known))
      },
    })
  fromSample(
    'outbox_events_pending',
    'Events to be delivered, those that are retried or wait for an earlier one included; each state is counted up to a million.',
    ({ counts }) => counts.pending + counts.retrying + counts.blocked,
  )
  fromSample(
    'outbox_dead_letters',
    'Events that will not be delivered until somebody retries or discards them; counted up to a million.',
    ({ counts }) => counts.dead,
  )
  fromSample(
    'outbox_blocked_aggregates',
    'Aggregates held back by an event that is retried or by a dead letter that holds.',
    ({ blockedAggregates }) => blockedAggregates,
  )
  fromSample(
    'outbox_oldest_pending_age_seconds',
    'Age of the oldest event to be delivered; 0 when there is none.',
    ({ oldestPendingAgeSeconds }) => oldestPendingAgeSeconds ?? 0,
  )
  new Gauge({
    name: 'outbox_collect_success',
    help: `1 while the counts of the outbox are at most ${staleAfterSeconds} seconds old; 0: they are unknown and absent.`,
    registers,
    collect() {
      this.set(fresh() === null ? 0 : 1)
    },
  })
  new Gauge({
    name: 'outbox_collect_last_success_timestamp_seconds',
    help: 'When the outbox was last counted, in seconds since 1970; absent before the first time.',
    registers,
    collect() {
      const known = sample()
      if (known === null) this.remove()
      else this.set(Date.now() / 1000 - known.ageSeconds)
    },
  })
}
