import { expect, test } from 'vitest'
import { auditPublication } from '../../src/publications/audit.ts'
import { createPublication } from '../../src/publications/publication.ts'
import { plantHealthy } from './fixtures/healthy.ts'
import { answers, database, publications, sources } from './fixtures/notes.ts'

async function writeHealthy(count: number): Promise<void> {
  await database.query(
    'TRUNCATE notes, "waybill".outbox_events, "waybill".publication_heads, "waybill".processed_events, "waybill".projection_revisions',
  )
  await plantHealthy(database, count)
}

test('an audit finds exactly what is wrong, with counts and first keys, page by page', async () => {
  await writeHealthy(5_000)
  const event = (change: string, id: string) =>
    database.query(`UPDATE "waybill".outbox_events SET ${change} WHERE aggregate_id = $1`, [id])
  await database.query(`DELETE FROM "waybill".outbox_events WHERE aggregate_id IN ('n-0000007', 'n-0004000')`)
  await database.query(
    `DELETE FROM "waybill".publication_heads WHERE aggregate_id IN ('n-0000007', 'n-0004000')`,
  )
  await event(`processed_at = NULL, created_at = now() - interval '1 hour'`, 'n-0001000')
  await event(`processed_at = NULL, created_at = now() - interval '1 hour'`, 'n-0001003')
  await database.query(`DELETE FROM "waybill".processed_events WHERE aggregate_id = 'n-0001000'`)
  await database.query(`DELETE FROM "waybill".projection_revisions WHERE aggregate_id = 'n-0001000'`)
  await event(`processed_at = NULL, dead_at = now()`, 'n-0001001')
  await event('processed_at = NULL', 'n-0001002')
  await database.query(
    `UPDATE "waybill".processed_events SET result = 'rejected' WHERE aggregate_id = 'n-0002000'`,
  )
  await database.query(
    `DELETE FROM "waybill".projection_revisions WHERE aggregate_id IN ('n-0002000', 'n-0002001')`,
  )
  await database.query(`INSERT INTO "waybill".processed_events
      (consumer, event_id, result, aggregate_type, aggregate_id, revision)
    SELECT 'public-list', 'twice', 'applied', 'note', 'n-0003000', revision FROM notes WHERE id = 'n-0003000'`)

  const progress: number[] = []
  const report = await auditPublication(sources, publications.get('note')!, {
    ...{ batch: 1_000, onProgress: (checked: number) => void progress.push(checked) },
  })
  expect(progress).toEqual([1_000, 2_000, 3_000, 4_000, 5_000])
  const keys = Object.fromEntries(
    Object.entries(report.symptoms).map(([symptom, { count, first }]) => [
      symptom,
      [count, ...first.map(({ id, cause }) => `${id} ${cause}`)],
    ]),
  )
  expect(keys).toEqual({
    'intent-missing': [2, 'n-0000007 no-intent', 'n-0004000 no-intent'],
    // Of the last one the list shows that it was handed over.
    'intent-overdue': [3, 'n-0001000 relay-late', 'n-0001001 dead-letter', 'n-0001003 not-recorded'],
    'projection-old': [2, 'n-0002000 consumer-rejected', 'n-0002001 applied-but-projection-old'],
    'applied-twice': [1, 'n-0003000 no-condition'],
  })
  expect(report).toMatchObject({
    checked: 5_000,
    complete: true,
    states: { 'note-only': 2, 'intent-dead': 1 },
  })
  expect(report.gaps).toEqual([{ name: 'public reads', reason: 'not asked, --reads asks them' }])
})

test('an audit asks the public reads when it is told to', async () => {
  await writeHealthy(50)
  for (let n = 1; n <= 50; n++) answers.set(`n-${String(n).padStart(7, '0')}`, { body: '{"revision": 9}' })
  answers.set('n-0000020', { body: '{"revision": 0}', headers: { age: '20' } })
  const { symptoms, gaps } = await auditPublication(sources, publications.get('note')!, { withReads: true })
  expect(symptoms).toEqual({
    'public-read-old': {
      count: 1,
      first: [expect.objectContaining({ id: 'n-0000020', cause: 'cached', owner: 'read' })],
    },
  })
  expect(gaps).toEqual([])
})

test('an audit of a history looks at every revision, and takes a consumer that cannot be asked for a gap', async () => {
  await writeHealthy(10)
  await database.query(
    'CREATE TABLE versions AS SELECT id, r::bigint AS revision FROM notes, generate_series(1, 3) AS r',
  )
  const history = createPublication('note', {
    source: { table: 'versions', id: 'id', revision: 'revision', keeps: 'history' },
    ...{ pendingLimitSeconds: 30, owners: {}, projections: [], reads: [] },
    consumers: [{ name: 'elsewhere', schema: 'nowhere' }],
  })
  const report = await auditPublication(
    {
      ...sources,
      databaseOf: (place) => ({ ...sources.outbox, schema: place.schema ?? sources.outbox.schema }),
    },
    history,
    { batch: 4 },
  )
  expect(report.checked).toBe(30)
  expect(report.gaps).toEqual([{ name: 'consumer elsewhere', reason: expect.stringContaining('nowhere') }])
  // A head tells of the revisions before its own that retention may have removed them; those after it have no intent.
  const later = await database.rows<{ count: number }>(
    'SELECT count(*)::int AS count FROM versions AS v JOIN notes AS n USING (id) WHERE v.revision > n.revision',
  )
  expect(report.symptoms['intent-missing']!.count).toBe(later[0]!.count)
})
