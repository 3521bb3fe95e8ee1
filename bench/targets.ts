/** What a figure has to reach, and what we would like it to. */
export interface Target {
  compare: '≥' | '≤'
  required: number
  aim?: number
}

const atLeast = (required: number, aim?: number): Target => ({
  compare: '≥',
  required,
  ...(aim === undefined ? {} : { aim }),
})
const atMost = (required: number): Target => ({ compare: '≤', required })

const claim = atMost(1.5)

export const targets: Readonly<Record<string, Target>> = {
  'drain.vs_article': atLeast(12, 15),
  'drain.delete_vs_article': atLeast(20, 25),
  'drain.vs_pg_recvlogical': atLeast(0.9, 1.1),
  'drain.vs_graphile_worker': atLeast(1.5),
  'drain.publisher_2ms_vs_noop': atLeast(0.9),
  'drain.default_batch_vs_best': atLeast(0.6),
  'producer.wakeup_on_vs_off_32': atLeast(0.85),
  'producer.wakeup_on_vs_off_32_slow_commit': atLeast(0.85),
  'latency_ms.notify.p50': atMost(2),
  'latency_ms.notify.p99': atMost(10),
  'claim.stuck_aggregate': claim,
  'claim.old_snapshot': claim,
  'claim.processed_kept': claim,
  'claim.dead_letters': claim,
  'claim.slow_bucket': claim,
  'memory_mb.million_pending': atMost(150),
  'publisher.kafka_vs_bare': atLeast(0.7),
  'publisher.rabbitmq_vs_bare': atLeast(0.7),
  'publisher.nats_vs_bare': atLeast(0.7),
  'publisher.redis_vs_bare': atLeast(0.7),
  'publisher.sqs_vs_bare': atLeast(0.7),
  'publisher.sns_vs_bare': atLeast(0.7),
  'publisher.webhook_vs_bare': atLeast(0.7),
  'scrape_ms.ten_million': atMost(200),
  'status_ms.ten_million': atMost(200),
  'ready_ms.ten_million': atMost(200),
  'operations.slowest_statement_ms': atMost(1000),
  'operations.table_scans': atMost(0),
  'operations.memory_mb': atMost(150),
  'audit.million_s': atMost(60),
  'audit.slowest_statement_ms': atMost(1000),
  'audit.memory_mb': atMost(150),
}

export function reaches(value: number, { compare, required }: Target): boolean {
  return compare === '≥' ? value >= required : value <= required
}
