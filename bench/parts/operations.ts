import { setTimeout as sleep } from 'node:timers/promises'
import { migrate } from '../../src/schema/migrator.ts'
import type { OperationTimes, OperationsResult } from '../child/job.ts'
import { type RelayCommand, buildCommand, startRelayCommand } from '../command.ts'
import { insertMany } from '../many.ts'
import { type Context, type Part, type PartResult, figure, thousands } from '../part.ts'
import { type BenchDatabase, startBenchServer } from '../server.ts'
import { median, percentile, rounded } from '../statistics.ts'
import { startWebhook } from '../webhook.ts'

/** Every so many of the kept rows is a dead letter: 200 000 of ten million. */
const deadEvery = 50
/** Every so many of the pending rows has failed and waits for its next try. */
const retryingEvery = 300

const reading = ['counting (sample)', 'status', 'list', 'dead list']
const changing = ['prune --dry-run', 'prune', 'dead retry --all']
const childSeconds = 1200

/** What each path of the HTTP server is called in the figures. */
const paths = { '/metrics': 'scrape_ms', '/api/v1/status': 'status_ms', '/readyz': 'ready_ms' } as const
const requestEveryMs = 50

type Requests = ReadonlyMap<keyof typeof paths, readonly number[]>

export const operationsPart: Part = {
  name: 'operations',
  owes: [
    ...Object.values(paths).map((name) => `${name}.ten_million`),
    ...['slowest_statement_ms', 'table_scans', 'memory_mb'].map((name) => `operations.${name}`),
  ],
  async run(context) {
    buildCommand()
    const server = await startBenchServer()
    try {
      const database = await server.createDatabase('bench')
      await migrate({ databaseUrl: database.url })
      await fill(context, database)
      const scansBefore = await tableScans(database)
      // Whoever has just restored a database, or filled a table, has no statistics and no visibility map.
      const untold = await operate(context, database, 'without statistics', reading)
      await database.query('VACUUM ANALYZE waybill.outbox_events')
      const told = await operate(context, database, 'with statistics', [...reading, ...changing])
      const scans = (await tableScans(database)) - scansBefore
      await database.query('VACUUM ANALYZE waybill.outbox_events')
      const requests = await askRelay(context, database)
      return resultOf(context, { untold, told, scans, requests })
    } finally {
      await server.stop()
    }
  },
}

async function fill({ scale, log }: Context, database: BenchDatabase): Promise<void> {
  const { kept, pending } = scale.operations
  log(`operations: writing ${thousands(kept)} published and ${thousands(pending)} pending events`)
  const isDead = `i % ${deadEvery} = 7`
  // Over six days, so that the oldest sixth can be pruned.
  const created = `now() - (${kept} - i) * interval '${(6 * 86_400) / kept} seconds'`
  await insertMany(database, {
    rows: kept,
    aggregates: kept / 20,
    filling: 100,
    more: {
      created_at: created,
      processed_at: `CASE WHEN NOT ${isDead} THEN ${created} END`,
      dead_at: `CASE WHEN ${isDead} THEN ${created} END`,
      last_attempt_at: `CASE WHEN ${isDead} THEN ${created} END`,
      last_error: `CASE WHEN ${isDead} THEN 'the receiver answered 500' END`,
    },
  })
  const isRetrying = `i % ${retryingEvery} = 0`
  await insertMany(database, {
    rows: pending,
    aggregates: pending / 10,
    aggregateType: 'waiting',
    more: {
      last_attempt_at: `CASE WHEN ${isRetrying} THEN now() END`,
      retry_after: `CASE WHEN ${isRetrying} THEN now() + interval '1 hour' END`,
    },
  })
}

async function tableScans(database: BenchDatabase): Promise<number> {
  // A session tells what it did at its end at the latest; what this one has read before is not news.
  await database.query('SELECT pg_stat_clear_snapshot()')
  const [row] = await database.query<{ scans: string }>(
    `SELECT seq_scan::text AS scans FROM pg_stat_user_tables WHERE relid = 'waybill.outbox_events'::regclass`,
  )
  return Number(row!.scans)
}

async function operate(
  { scale, children, log }: Context,
  { url }: BenchDatabase,
  when: string,
  operations: readonly string[],
): Promise<OperationsResult> {
  log(`operations: ${operations.join(', ')}, ${when}`)
  const { pruneBatches } = scale.operations
  const child = children.start(
    { job: 'operations', url, operations, pruneBatches },
    { timeoutMs: childSeconds * 1000 },
  )
  try {
    return await child.result<OperationsResult>()
  } finally {
    await child.stop()
  }
}

/** Asks the HTTP server of a relay again and again, while it delivers. */
async function askRelay({ scale, log }: Context, { url }: BenchDatabase): Promise<Requests> {
  log('operations: scrapes, status and readiness of a relay that delivers')
  const webhook = await startWebhook()
  let relay: RelayCommand | undefined
  try {
    relay = await startRelayCommand(url, webhook.url)
    // The first answers of a process are those of code that has never run.
    for (const path of Object.keys(paths)) await (await fetch(relay.url + path)).text()
    const deadline = performance.now() + scale.operations.seconds * 1000
    const times = new Map<keyof typeof paths, number[]>()
    while (performance.now() < deadline) {
      for (const path of Object.keys(paths) as (keyof typeof paths)[]) {
        const startedAt = performance.now()
        await (await fetch(relay.url + path)).text()
        times.set(path, [...(times.get(path) ?? []), performance.now() - startedAt])
      }
      await sleep(requestEveryMs)
    }
    if (webhook.received === 0) throw new Error('the relay delivered nothing meanwhile')
    return times
  } finally {
    await relay?.stop()
    await webhook.close()
  }
}

interface Measured {
  untold: OperationsResult
  told: OperationsResult
  scans: number
  requests: Requests
}

function resultOf({ scale }: Context, { untold, told, scans, requests }: Measured): PartResult {
  const { kept, pending, seconds } = scale.operations
  const all = [...untold.operations, ...told.operations]
  const name = (path: keyof typeof paths) => `${paths[path]}.ten_million`
  return {
    figures: {
      ...Object.fromEntries(
        [...requests].map(([path, times]) => [name(path), figure(percentile(times, 99), 'not measured')]),
      ),
      'operations.slowest_statement_ms': figure(Math.max(...all.map(({ slowestMs }) => slowestMs)), ''),
      'operations.table_scans': scans,
      'operations.memory_mb': figure(Math.max(untold.peakRssMb, told.peakRssMb), ''),
    },
    sections: [
      {
        title: 'Questions to a relay',
        notes: [
          `The HTTP server of \`waybill relay\` while it delivers to a webhook, with ${thousands(kept)} published rows, ${thousands(kept / deadEvery)} dead letters and ${thousands(pending)} pending events, over ${seconds} s. The figure is the 99th percentile.`,
        ],
        head: ['path', 'requests', 'median, ms', 'p99, ms', 'largest, ms'],
        rows: [...requests].map(([path, times]) => [
          `\`${path}\``,
          times.length,
          rounded(median(times)),
          rounded(percentile(times, 99)),
          rounded(Math.max(...times)),
        ]),
      },
      {
        title: 'Operations',
        notes: [
          `What an operator does, with the same rows. \`list\` asks for each state, without and with a filter that nothing matches, from both ends. "Before": right after the rows were written, without statistics and visibility map. The table was read as a whole ${scans} times.`,
        ],
        head: ['operation', 'statements', 'slowest, ms', 'total, s', 'slowest before, ms'],
        rows: told.operations.map((operation) => [
          operation.name,
          operation.statements,
          rounded(operation.slowestMs),
          rounded(operation.totalMs / 1000),
          rounded(slowestOf(untold.operations, operation.name)),
        ]),
      },
    ],
  }
}

function slowestOf(operations: readonly OperationTimes[], wanted: string): number | null {
  return operations.find(({ name }) => name === wanted)?.slowestMs ?? null
}
