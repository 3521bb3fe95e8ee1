import { Counter, Gauge, Histogram, type Registry } from 'prom-client'
import type { Telemetry } from './events.ts'

const durationBuckets = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60]
const latencyBuckets = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 3600]

/** What the consumers of this process do, counted from telemetry. Answers how to end that. */
export function addConsumerMetrics(registry: Registry, telemetry: Telemetry): () => void {
  const metrics = defineConsumerMetrics(registry)
  const ended = (consumer: string, result: string) => metrics.events.inc({ consumer, result })
  const endings = [
    telemetry.on('consumer.handled', ({ consumer, result, durationMs, latencyMs }) => {
      ended(consumer, result)
      metrics.duration.observe({ consumer }, durationMs / 1000)
      if (latencyMs !== null && result !== 'duplicate')
        metrics.latency.observe({ consumer }, latencyMs / 1000)
    }),
    telemetry.on('consumer.failed', ({ consumer }) => metrics.failures.inc({ consumer })),
    telemetry.on('consumer.dead', ({ consumer }) => ended(consumer, 'rejected')),
    telemetry.on('consumer.invalid', ({ consumer }) => ended(consumer, 'rejected')),
    telemetry.on('consumer.parked', ({ consumer }) => ended(consumer, 'parked')),
    telemetry.on('consumer.conflict', ({ consumer }) => metrics.conflict.set({ consumer }, 1)),
    telemetry.on('consumer.started', ({ consumer }) => metrics.sourceUp.set({ consumer }, 1)),
    telemetry.on('source.down', ({ consumer }) => metrics.sourceUp.set({ consumer }, 0)),
    telemetry.on('source.up', ({ consumer }) => metrics.sourceUp.set({ consumer }, 1)),
  ]
  return () => {
    for (const end of endings) end()
  }
}

function defineConsumerMetrics(registry: Registry) {
  const shared = { labelNames: ['consumer'] as const, registers: [registry] }
  return {
    events: new Counter({
      name: 'outbox_consumer_events_total',
      help: 'Events that came to their end in a consumer, by result.',
      labelNames: ['consumer', 'result'],
      registers: [registry],
    }),
    failures: new Counter({
      ...shared,
      name: 'outbox_consumer_failures_total',
      help: 'Tries of a handler that failed and are made again.',
    }),
    duration: new Histogram({
      ...shared,
      name: 'outbox_consumer_duration_seconds',
      help: 'Duration of the transaction of one event.',
      buckets: durationBuckets,
    }),
    latency: new Histogram({
      ...shared,
      name: 'outbox_consumer_latency_seconds',
      help: 'Time from the insert of an event to the commit of its handler, by the clocks of two machines.',
      buckets: latencyBuckets,
    }),
    sourceUp: new Gauge({
      ...shared,
      name: 'outbox_consumer_source_up',
      help: '1 while the source of a consumer delivers, 0 while it is away; absent before the start.',
    }),
    conflict: new Gauge({
      ...shared,
      name: 'outbox_consumer_name_conflict',
      help: '1 once another service was found under the name of this consumer; absent otherwise.',
    }),
  }
}
