import { Counter, Gauge, Histogram, type Registry } from 'prom-client'
import type { Telemetry } from './events.ts'
import { createFastHistogram } from './histogram.ts'

/** Event types beyond this number are counted as `other`: a label must not grow without bound. */
export const eventTypeLimit = 100

const batchBuckets = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10]
const latencyBuckets = [
  0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 3600,
]

/** What this process does, counted from telemetry. Answers how to end that. */
export function addRelayMetrics(registry: Registry, telemetry: Telemetry): () => void {
  const metrics = defineRelayMetrics(registry)
  const eventType = createLabelLimit(eventTypeLimit)
  const destinations = new Set<string>()
  function setBrokerUp(destination: string, up: 0 | 1): void {
    destinations.add(destination)
    metrics.brokerUp.set({ destination }, up)
  }
  const endings = [
    telemetry.on('batch.finished', (batch) => {
      metrics.published.inc(batch.published)
      metrics.batchDuration.observe(batch.durationMs / 1000)
      for (const ms of batch.latenciesMs) metrics.latency.observe(ms / 1000)
      // Only where nothing is known yet: a call that began before an outage may end in the middle of it.
      if (batch.published > 0 && !destinations.has(batch.destination)) setBrokerUp(batch.destination, 1)
    }),
    telemetry.on('event.failed', (event) => metrics.failed.inc({ event_type: eventType(event.eventType) })),
    telemetry.on('event.dead', (event) => metrics.failed.inc({ event_type: eventType(event.eventType) })),
    telemetry.on('destination.down', ({ destination }) => setBrokerUp(destination, 0)),
    telemetry.on('destination.up', ({ destination }) => setBrokerUp(destination, 1)),
    telemetry.on('relay.buckets', ({ owned }) => metrics.buckets.set(owned)),
    telemetry.on('relay.wakeup', ({ source }) => metrics.wakeups.inc({ source })),
  ]
  return () => {
    for (const end of endings) end()
  }
}

function defineRelayMetrics(registry: Registry) {
  const registers = [registry]
  const published = new Counter({
    name: 'outbox_events_published_total',
    help: 'Total outbox events successfully published.',
    registers,
  })
  const failed = new Counter({
    name: 'outbox_events_failed_total',
    help: 'Total outbox publish failures by event type; while a destination is away nothing is counted here.',
    labelNames: ['event_type'],
    registers,
  })
  const batchDuration = new Histogram({
    name: 'outbox_batch_duration_seconds',
    help: 'Duration of each outbox processing batch: one publish call to one destination.',
    buckets: batchBuckets,
    registers,
  })
  const latency = createFastHistogram(registry, {
    name: 'outbox_delivery_latency_seconds',
    help: 'Time from the insert of an event to the confirmation by its destination.',
    buckets: latencyBuckets,
  })
  const brokerUp = new Gauge({
    name: 'outbox_broker_up',
    help: '1 while a destination takes events, 0 while it is away; absent until this process has talked to it.',
    labelNames: ['destination'],
    registers,
  })
  const buckets = new Gauge({
    name: 'outbox_relay_buckets',
    help: 'Buckets owned by this relay.',
    registers,
  })
  const wakeups = new Counter({
    name: 'outbox_wakeups_total',
    help: 'Looks for work by what caused them.',
    labelNames: ['source'],
    registers,
  })
  return { published, failed, batchDuration, latency, brokerUp, buckets, wakeups }
}

/** The first `limit` values as they are, every further one as `other`. */
function createLabelLimit(limit: number): (value: string) => string {
  const known = new Set<string>()
  return (value) => {
    if (known.has(value)) return value
    if (known.size >= limit) return 'other'
    known.add(value)
    return value
  }
}
