import { migrate } from '../../src/schema/migrator.ts'
import type { OperationsResult } from '../child/job.ts'
import { type Part, figure, thousands } from '../part.ts'
import { type BenchDatabase, startBenchServer } from '../server.ts'
import { rounded } from '../statistics.ts'

const childSeconds = 600

export const auditPart: Part = {
  name: 'audit',
  owes: ['million_s', 'slowest_statement_ms', 'memory_mb'].map((name) => `audit.${name}`),
  async run({ scale, children, log }) {
    const { revisions } = scale.audit
    const server = await startBenchServer()
    try {
      const database = await server.createDatabase('bench')
      await migrate({ databaseUrl: database.url })
      log(`audit: writing ${thousands(revisions)} revisions that went all the way`)
      await fill(database, revisions)
      log('audit: looking at all of them')
      const child = children.start(
        { job: 'operations', url: database.url, operations: ['audit'], pruneBatches: 0 },
        { timeoutMs: childSeconds * 1000 },
      )
      let result: OperationsResult
      try {
        result = await child.result<OperationsResult>()
      } finally {
        await child.stop()
      }
      const { operations, peakRssMb } = result
      const [audit] = operations
      const seconds = audit!.totalMs / 1000
      return {
        figures: {
          'audit.million_s': figure((seconds * 1_000_000) / revisions, ''),
          'audit.slowest_statement_ms': figure(audit!.slowestMs, ''),
          'audit.memory_mb': figure(peakRssMb, ''),
        },
        sections: [
          {
            title: 'Audit',
            notes: [
              'One publication with a consumer, a projection and the table of that projection; public reads are not asked.',
            ],
            head: ['revisions', 'seconds', 'statements', 'slowest, ms', 'resident set, MB'],
            rows: [
              [
                thousands(revisions),
                rounded(seconds),
                audit!.statements,
                rounded(audit!.slowestMs),
                rounded(peakRssMb),
              ],
            ],
          },
        ],
      }
    } finally {
      await server.stop()
    }
  },
}

/** As the service, the relay and the consumer would have written them. */
async function fill(database: BenchDatabase, revisions: number): Promise<void> {
  const statements = [
    'CREATE TABLE notes (id text PRIMARY KEY, revision int NOT NULL, body text NOT NULL)',
    'CREATE TABLE public_notes (id text PRIMARY KEY, revision int NOT NULL)',
    `INSERT INTO notes SELECT 'n-' || n, 1 + n % 3, 'text' FROM generate_series(1, ${revisions}) AS n`,
    'INSERT INTO public_notes SELECT id, revision FROM notes',
    `INSERT INTO waybill.outbox_events (aggregate_type, aggregate_id, event_type, payload, revision, processed_at)
     SELECT 'note', id, 'note.published', '{}', revision, now() FROM notes`,
    `INSERT INTO waybill.publication_heads
       (aggregate_type, aggregate_id, revision, event_id, relayed_at, relayed_revision)
     SELECT 'note', aggregate_id, revision, id, now(), revision FROM waybill.outbox_events`,
    `INSERT INTO waybill.processed_events (consumer, event_id, result, aggregate_type, aggregate_id, revision)
     SELECT 'public-list', id, 'applied', 'note', aggregate_id, revision FROM waybill.outbox_events`,
    `INSERT INTO waybill.projection_revisions (projection, aggregate_type, aggregate_id, revision, event_id)
     SELECT 'public_notes', 'note', aggregate_id, revision, id FROM waybill.outbox_events`,
    'VACUUM ANALYZE',
  ]
  for (const statement of statements) await database.query(statement)
}
