import type { Metric, Registry } from 'prom-client'

/** A histogram without labels that takes an observation in a few nanoseconds. */
export interface FastHistogram {
  observe(value: number): void
}

/**
 * prom-client's own histogram costs about half a microsecond for each value: with one value for each delivered event
 * that would be a tenth of the relay's time. This one only counts, and is turned into prom-client's form when it is
 * read.
 */
export function createFastHistogram(
  registry: Registry,
  { name, help, buckets }: { name: string; help: string; buckets: readonly number[] },
): FastHistogram {
  const counts = new Float64Array(buckets.length + 1)
  let sum = 0
  const values = () => {
    let total = 0
    const lines: { labels: object; metricName: string; value: number }[] = buckets.map((le, i) => ({
      labels: { le },
      metricName: `${name}_bucket`,
      value: (total += counts[i]!),
    }))
    total += counts[buckets.length]!
    lines.push({ labels: { le: '+Inf' }, metricName: `${name}_bucket`, value: total })
    lines.push({ labels: {}, metricName: `${name}_sum`, value: sum })
    lines.push({ labels: {}, metricName: `${name}_count`, value: total })
    return lines
  }
  const metric = {
    name,
    help,
    type: 'histogram',
    aggregator: 'sum',
    get: () => ({ name, help, type: 'histogram', aggregator: 'sum', values: values() }),
    reset: () => {
      counts.fill(0)
      sum = 0
    },
  }
  registry.registerMetric(metric as unknown as Metric)
  return {
    observe(value) {
      if (!(value >= 0)) return
      let i = 0
      while (i < buckets.length && value > buckets[i]!) i++
      counts[i]!++
      sum += value
    },
  }
}
