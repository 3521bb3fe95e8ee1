import { expect, test } from 'vitest'
import { createHousekeeping, createMetrics } from '../../src/admin/server.ts'
import { readAudits } from '../../src/operations/stored-audit.ts'
import { createTelemetry } from '../../src/telemetry/events.ts'
import { createConnection } from '../../src/database/connection.ts'
import { createTestDatabase } from '../support/postgres.ts'

const note = {
  source: { table: 'notes', id: 'id', revision: 'revision', keeps: 'latest' },
  ...{ pendingLimitSeconds: 30, owners: {}, projections: [], consumers: [], reads: [] },
} as const

function relayOf(database: { url: string; schema: string }, n: number) {
  const telemetry = createTelemetry()
  const broken = { ...note, source: { ...note.source, table: 'not_there' } }
  const keeping = createHousekeeping({
    ...{ databaseUrl: database.url, schema: database.schema, telemetry, retention: false },
    relayId: `0197f6a0-2f43-7cc0-8000-5b1f0c0f7d1${n}`,
    publications: { note, broken },
  })
  const seen = { taken: 0, failed: [] as (string | null)[] }
  const first = new Promise<void>((resolve) =>
    telemetry.on('audit.taken', () => {
      seen.taken++
      resolve()
    }),
  )
  telemetry.on('audit.failed', ({ publication }) => void seen.failed.push(publication))
  return { telemetry, keeping, seen, first }
}

test('one relay audits for all; what it found is a metric of each, and one that fails hides no other', async () => {
  const database = await createTestDatabase()
  await database.query('CREATE TABLE notes (id text PRIMARY KEY, revision int NOT NULL)')
  await database.query(`INSERT INTO notes VALUES ('n-1', 1), ('n-2', 4), ('n-3', 1)`)
  await database.query(`INSERT INTO "waybill".outbox_events
    (aggregate_type, aggregate_id, event_type, payload, revision, created_at)
    VALUES ('note', 'n-1', 'note.published', '{}', 1, now() - interval '1 hour')`)
  const one = relayOf(database, 1)
  const two = relayOf(database, 2)
  const metrics = createMetrics({ telemetry: two.telemetry, audits: two.keeping.audits })
  expect((await metrics.render()).body).not.toContain('publication_symptoms{')
  one.keeping.start()
  await one.first
  two.keeping.start()
  await expect.poll(() => two.keeping.audits(), { timeout: 10_000 }).not.toBeNull()
  const { body } = await metrics.render()
  expect(body).toContain('publication_symptoms{publication="note",symptom="intent-missing"} 2\n')
  expect(body).toContain('publication_symptoms{publication="note",symptom="intent-overdue"} 1\n')
  expect(body).toContain('publication_symptoms{publication="note",symptom="projection-old"} 0\n')
  expect(body).toContain('publication_audit_gaps{publication="note"} 0\n')
  expect(body).not.toContain('publication="broken"')
  await Promise.all([one.keeping.stop(), two.keeping.stop()])
  expect(one.seen.failed).toEqual(['broken'])
  expect(two.seen.taken).toBe(0)
  const db = createConnection({ databaseUrl: database.url, schema: database.schema })
  const stored = (await readAudits(db, database.schema))!
  expect(stored.publications[0]!.symptoms['intent-missing']!.first.map(({ id }) => id)).toEqual([
    'n-2',
    'n-3',
  ])
  expect(stored.failures).toMatchObject([
    { publication: 'broken', reason: expect.stringContaining('not_there') },
  ])
  await db.close()
})

test('counts that are too old are not told', async () => {
  const audits = { publications: [{ publication: 'note', symptoms: {}, gaps: [] }], durationMs: 1_000 }
  const told = async (ageSeconds: number) =>
    (
      await createMetrics({
        telemetry: createTelemetry(),
        audits: () => ({ ...audits, ageSeconds }),
      }).render()
    ).body
  expect(await told(100)).toContain('publication_symptoms{')
  expect(await told(200)).not.toContain('publication_symptoms{')
  expect(await told(200)).toMatch(/^publication_audit_last_success_timestamp_seconds \d/m)
})
