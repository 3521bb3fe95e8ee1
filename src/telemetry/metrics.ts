import { Registry } from 'prom-client'
import { type AuditCounts, addAuditMetrics } from './audit-metrics.ts'
import { addConsumerMetrics } from './consumer-metrics.ts'
import type { Telemetry } from './events.ts'
import { addRelayMetrics } from './relay-metrics.ts'
import { type KnownSample, addSampleMetrics } from './sample-metrics.ts'

export interface MetricsOptions {
  telemetry: Telemetry
  /** The newest sample of the outbox with its age, as a sampler keeps it; null when none is known. No I/O. */
  sample?: () => KnownSample | null
  /** What the last audits of the publications found; null when none is known. No I/O. */
  audits?: () => AuditCounts | null
}

export interface Metrics {
  readonly registry: Registry
  /** The text for Prometheus. Reads nothing but memory. */
  render(): Promise<{ contentType: string; body: string }>
  /** Stops counting. */
  close(): void
}

/**
 * The metrics of one process in a registry of their own. What happens comes from telemetry, what lies in the outbox
 * from the sample; what is not known is absent, never 0.
 */
export function createMetrics({
  telemetry,
  sample = () => null,
  audits = () => null,
}: MetricsOptions): Metrics {
  const registry = new Registry()
  const endings = [addRelayMetrics(registry, telemetry), addConsumerMetrics(registry, telemetry)]
  addSampleMetrics(registry, sample)
  addAuditMetrics(registry, audits)
  return {
    registry,
    render: async () => ({ contentType: registry.contentType, body: await registry.metrics() }),
    close: () => endings.forEach((end) => end()),
  }
}
