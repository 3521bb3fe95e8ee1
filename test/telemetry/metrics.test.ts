import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { type EventReference, type OutboxSample, createTelemetry } from '../../src/telemetry/events.ts'
import { createMetrics } from '../../src/telemetry/metrics.ts'
import type { KnownSample } from '../../src/telemetry/sample-metrics.ts'
import { eventTypeLimit } from '../../src/telemetry/relay-metrics.ts'

const reference: EventReference = {
  eventId: 'e-secret-id',
  eventType: 'order.created',
  aggregateType: 'order',
  aggregateId: 'o-secret-id',
  attempt: 1,
}
const sample: OutboxSample = {
  sampledAt: '2026-03-01T10:00:00.000000Z',
  counts: { pending: 10, retrying: 2, blocked: 3, dead: 4 },
  blockedAggregates: 2,
  oldestPendingAgeSeconds: 12.5,
}

function measured(known: KnownSample | null = null) {
  const telemetry = createTelemetry()
  const state = { known }
  const metrics = createMetrics({ telemetry, sample: () => state.known })
  return {
    telemetry,
    metrics,
    state,
    /** Name and labels to value. */
    async read(): Promise<Record<string, number>> {
      const { body } = await metrics.render()
      const lines = body.split('\n').filter((line) => line !== '' && !line.startsWith('#'))
      return Object.fromEntries(
        lines.map((line) => [
          line.slice(0, line.lastIndexOf(' ')),
          Number(line.slice(line.lastIndexOf(' '))),
        ]),
      )
    },
  }
}

describe('what the relay does', () => {
  it('counts what was published and how long it took', async () => {
    const { telemetry, read } = measured()
    telemetry.emit('batch.finished', {
      destination: 'bus',
      durationMs: 40,
      published: 3,
      failed: 1,
      latenciesMs: [2, 30, 4_000_000],
    })
    telemetry.emit('batch.finished', {
      destination: 'bus',
      durationMs: 7,
      published: 1,
      failed: 0,
      latenciesMs: [1],
    })
    const values = await read()
    expect(values).toMatchObject({
      outbox_events_published_total: 4,
      'outbox_batch_duration_seconds_bucket{le="0.01"}': 1,
      'outbox_batch_duration_seconds_bucket{le="0.05"}': 2,
      outbox_batch_duration_seconds_count: 2,
      'outbox_delivery_latency_seconds_bucket{le="0.001"}': 1,
      'outbox_delivery_latency_seconds_bucket{le="0.0025"}': 2,
      'outbox_delivery_latency_seconds_bucket{le="0.05"}': 3,
      'outbox_delivery_latency_seconds_bucket{le="3600"}': 3,
      'outbox_delivery_latency_seconds_bucket{le="+Inf"}': 4,
      outbox_delivery_latency_seconds_count: 4,
    })
    expect(values['outbox_delivery_latency_seconds_sum']).toBeCloseTo(4000.033)
  })

  it('counts failures by event type, those that end as dead letters too', async () => {
    const { telemetry, read } = measured()
    telemetry.emit('event.failed', {
      ...reference,
      destination: 'bus',
      error: 'x',
      counted: true,
      retryInMs: 1,
    })
    telemetry.emit('event.dead', { ...reference, destination: 'bus', error: 'x', holds: false })
    telemetry.emit('event.dead', {
      ...reference,
      eventType: 'a"b\\c\nd',
      destination: null,
      error: 'x',
      holds: false,
    })
    expect(await read()).toMatchObject({
      'outbox_events_failed_total{event_type="order.created"}': 2,
      'outbox_events_failed_total{event_type="a\\"b\\\\c\\nd"}': 1,
    })
  })

  it('counts event types beyond the limit as "other"', async () => {
    const { telemetry, read } = measured()
    const fail = (eventType: string) =>
      telemetry.emit('event.dead', { ...reference, eventType, destination: null, error: 'x', holds: false })
    for (let i = 0; i < eventTypeLimit + 7; i++) fail(`type-${i}`)
    fail('type-0')
    const values = await read()
    expect(values['outbox_events_failed_total{event_type="other"}']).toBe(7)
    expect(values['outbox_events_failed_total{event_type="type-0"}']).toBe(2)
    expect(Object.keys(values).filter((key) => key.startsWith('outbox_events_failed_total'))).toHaveLength(
      eventTypeLimit + 1,
    )
  })

  it('knows nothing of a destination until it was talked to, and then whether it is there', async () => {
    const { telemetry, read } = measured()
    const up = async () => (await read())['outbox_broker_up{destination="bus"}']
    expect(await up()).toBeUndefined()
    const batch = { destination: 'bus', durationMs: 1, published: 1, failed: 0, latenciesMs: [1] }
    telemetry.emit('batch.finished', batch)
    expect(await up()).toBe(1)
    telemetry.emit('destination.down', { destination: 'bus', error: 'refused' })
    telemetry.emit('batch.finished', batch)
    expect(await up()).toBe(0)
    telemetry.emit('destination.up', { destination: 'bus', downMs: 5 })
    expect(await up()).toBe(1)
  })

  it('counts wake-ups by source and shows the buckets', async () => {
    const { telemetry, read } = measured()
    telemetry.emit('relay.wakeup', { source: 'notify' })
    telemetry.emit('relay.wakeup', { source: 'notify' })
    telemetry.emit('relay.wakeup', { source: 'safety' })
    telemetry.emit('relay.buckets', { owned: 32, taken: 32, released: 0 })
    expect(await read()).toMatchObject({
      'outbox_wakeups_total{source="notify"}': 2,
      'outbox_wakeups_total{source="safety"}': 1,
      outbox_relay_buckets: 32,
    })
  })

  it('never shows an id or an error text', async () => {
    const { telemetry, metrics } = measured()
    telemetry.emit('event.failed', {
      ...reference,
      destination: 'bus',
      error: 'secret reason',
      counted: true,
      retryInMs: 1,
    })
    telemetry.emit('destination.down', { destination: 'bus', error: 'secret reason' })
    const { body } = await metrics.render()
    expect(body).toContain('order.created')
    expect(body).not.toMatch(/secret/)
  })

  it('stops counting when closed', async () => {
    const { telemetry, metrics, read } = measured()
    metrics.close()
    telemetry.emit('relay.buckets', { owned: 3, taken: 3, released: 0 })
    expect((await read())['outbox_relay_buckets']).toBe(0)
  })
})

describe('what lies in the outbox', () => {
  const names = [
    'outbox_events_pending',
    'outbox_dead_letters',
    'outbox_blocked_aggregates',
    'outbox_oldest_pending_age_seconds',
  ]

  it('comes from the sample', async () => {
    const { read } = measured({ sample, ageSeconds: 3 })
    const values = await read()
    expect(values).toMatchObject({
      outbox_events_pending: 15,
      outbox_dead_letters: 4,
      outbox_blocked_aggregates: 2,
      outbox_oldest_pending_age_seconds: 12.5,
      outbox_collect_success: 1,
    })
    const collectedAt = values['outbox_collect_last_success_timestamp_seconds']!
    expect(Math.abs(Date.now() / 1000 - 3 - collectedAt)).toBeLessThan(2)
  })

  it('is 0 seconds old when nothing is pending', async () => {
    const { read } = measured({ sample: { ...sample, oldestPendingAgeSeconds: null }, ageSeconds: 3 })
    expect((await read())['outbox_oldest_pending_age_seconds']).toBe(0)
  })

  it('is absent while unknown, never 0', async () => {
    const { read, state } = measured()
    const unknown = await read()
    for (const name of names) expect(unknown).not.toHaveProperty(name)
    expect(unknown).toMatchObject({ outbox_collect_success: 0 })
    expect(unknown).not.toHaveProperty('outbox_collect_last_success_timestamp_seconds')
    state.known = { sample, ageSeconds: 1 }
    expect(await read()).toMatchObject({ outbox_events_pending: 15, outbox_collect_success: 1 })
  })

  it('is absent again when the sample is too old, and tells when the last one was', async () => {
    const { read, state } = measured({ sample, ageSeconds: 1 })
    await read()
    state.known = { sample, ageSeconds: 31 }
    const values = await read()
    for (const name of names) expect(values).not.toHaveProperty(name)
    expect(values).toMatchObject({ outbox_collect_success: 0 })
    expect(values).toHaveProperty('outbox_collect_last_success_timestamp_seconds')
  })
})

describe('what lies before the consumers', () => {
  const results = { applied: 1, stale: 0, rejected: 0, parked: 0, overSeconds: 3600 }
  const known: KnownSample = {
    ...{ sample, ageSeconds: 3 },
    consumers: [
      { name: 'billing', results, deadLetters: 2, parked: 3, lagSeconds: 4.5 },
      { name: 'elsewhere', results, deadLetters: 0, parked: 0, lagSeconds: null },
    ],
  }

  it('comes from the sample; a lag that is unknown is absent, never 0', async () => {
    const values = await measured(known).read()
    expect(values).toMatchObject({
      'outbox_consumer_lag_seconds{consumer="billing"}': 4.5,
      'outbox_consumer_dead_letters{consumer="billing"}': 2,
      'outbox_consumer_parked_events{consumer="billing"}': 3,
      'outbox_consumer_dead_letters{consumer="elsewhere"}': 0,
    })
    expect(values).not.toHaveProperty('outbox_consumer_lag_seconds{consumer="elsewhere"}')
  })

  it.each([
    ['the sample is too old', { ...known, ageSeconds: 31 }],
    ['it could not be read', { ...known, consumers: null }],
    ['it was never counted', null],
  ])('is absent when %s', async (_, next) => {
    const { read, state } = measured(known)
    await read()
    state.known = next
    const shown = Object.keys(await read()).filter((name) => /consumer_(lag|dead|parked)/.test(name))
    expect(shown).toEqual([])
  })
})

it('has every metric in docs/reference/metrics.md, with its type and labels, and no other', async () => {
  const text = readFileSync(new URL('../../docs/reference/metrics.md', import.meta.url), 'utf8')
  const documented = [...text.matchAll(/^\| `(\w+)(?:\{([\w,]+)\})?` +\| (\w+) +\|/gm)].map(
    ([, name, label = '', type]) => [name, label, type].join(' '),
  )
  const { metrics } = measured()
  const { body } = await metrics.render()
  const types = new Map([...body.matchAll(/^# TYPE (\w+) (\w+)$/gm)].map(([, name, type]) => [name!, type!]))
  const labels = new Map(
    metrics.registry.getMetricsAsArray().map((metric) => {
      const { name, labelNames = [] } = metric as unknown as { name: string; labelNames?: readonly string[] }
      return [name, labelNames.filter((label) => label !== 'le').join(',')]
    }),
  )
  const existing = [...types].map(([name, type]) => [name, labels.get(name) ?? '', type].join(' '))
  expect(documented.toSorted()).toEqual(existing.toSorted())
})
