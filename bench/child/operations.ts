import { type Connection, createConnection } from '../../src/database/connection.ts'
import { listDeadLetters, retryDeadLetters } from '../../src/operations/dead-letters.ts'
import { listEvents } from '../../src/operations/list-events.ts'
import { prune } from '../../src/operations/prune.ts'
import { auditPublication } from '../../src/publications/audit.ts'
import { createPublication } from '../../src/publications/publication.ts'
import { takeSample } from '../../src/operations/sample.ts'
import { readStatus } from '../../src/operations/status.ts'
import { eventStates } from '../../src/types.ts'
import type { OperationTimes, OperationsJob, OperationsResult } from './job.ts'

const schema = 'waybill'
/** A page that finds nothing looks for so long. */
const timeLimitMs = 1_000
const rssEveryMs = 20

const notes = createPublication('note', {
  source: { table: 'notes', id: 'id', revision: 'revision', keeps: 'latest' },
  ...{ pendingLimitSeconds: 30, owners: {}, reads: [] },
  consumers: ['public-list'],
  projections: [{ name: 'public_notes', table: 'public_notes' }],
})

/** What an operator may do, and the commands that do it. */
const operations: Readonly<Record<string, (db: Connection, job: OperationsJob) => Promise<unknown>>> = {
  'counting (sample)': (db) => takeSample(db, schema),
  status: (db) => readStatus(db, schema),
  async list(db) {
    for (const order of ['oldest', 'newest'] as const) {
      for (const states of [[], ...eventStates.map((state) => [state])]) {
        for (const filter of [{}, { aggregate: ['order', 'nobody'] as const }, { eventType: 'nothing' }]) {
          await listEvents(db, schema, { order, states, timeLimitMs, ...filter })
        }
      }
    }
  },
  async 'dead list'(db) {
    for (const filter of [{}, { limit: 1000 }, { error: 'nothing like it' }, { before: '2001-01-01' }]) {
      await listDeadLetters(db, schema, { timeLimitMs, ...filter })
    }
  },
  prune(db, { pruneBatches }) {
    let batches = 0
    return prune(db, schema, { processedDays: 5, mayContinue: async () => ++batches < pruneBatches })
  },
  'prune --dry-run': (db) => prune(db, schema, { processedDays: 5, dryRun: true }),
  audit(db) {
    const place = { db, schema }
    return auditPublication({ outbox: place, databaseOf: () => place }, notes)
  },
  'dead retry --all': (db) => retryDeadLetters(db, schema, { all: true, decidedBy: 'the benchmark' }),
}

export async function runOperations(job: OperationsJob): Promise<OperationsResult> {
  const times: number[] = []
  const connection = createConnection({ databaseUrl: job.url, schema, queryTimeoutMs: 120_000 })
  const timed: Connection = {
    ...connection,
    async query(text, ...rest) {
      const startedAt = performance.now()
      const result = await connection.query(text, ...rest)
      times.push(performance.now() - startedAt)
      return result as never
    },
  }
  const measured: OperationTimes[] = []
  let peakRss = 0
  const sampling = setInterval(() => (peakRss = Math.max(peakRss, process.memoryUsage.rss())), rssEveryMs)
  await timed.session()
  for (const name of job.operations) {
    times.length = 0
    const startedAt = performance.now()
    await operations[name]!(timed, job)
    const totalMs = performance.now() - startedAt
    measured.push({ name, statements: times.length, slowestMs: Math.max(...times), totalMs })
  }
  clearInterval(sampling)
  await connection.close()
  return { operations: measured, peakRssMb: peakRss / 2 ** 20 }
}
