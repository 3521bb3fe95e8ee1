import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest'
import { type Connection, createConnection } from '../../src/database/connection.ts'
import { discardStatement, retryStatement } from '../../src/operations/dead-letter-statements.ts'
import { retryDeadLetters } from '../../src/operations/dead-letters.ts'
import { type TestDatabase, createTestDatabase, untilOneWaits } from '../support/postgres.ts'
import { testSchema } from '../support/target.ts'
import { planOf, workOf } from './plan.ts'
import { dead, plant } from './plant.ts'

let database: TestDatabase
let db: Connection

beforeAll(async () => {
  database = await createTestDatabase()
  db = createConnection({ databaseUrl: database.url, schema: testSchema })
  // The planner is to have no statistics.
  await database.query('ALTER TABLE "waybill".outbox_events SET (autovacuum_enabled = off)')
})
afterAll(() => db.close())
beforeEach(() => database.query('TRUNCATE "waybill".outbox_events, "waybill".decisions'))

it.each([
  ['retried', retryStatement, [false]],
  ['discarded', discardStatement, []],
])('a chunk that is %s is looked up by the primary key, with no statistics at all', async (_, sql, more) => {
  const rows = await database.rows<{ id: string }>(
    `INSERT INTO "waybill".outbox_events (aggregate_type, aggregate_id, event_type, payload, dead_at, last_attempt_at)
     SELECT 'bulk', 'b-' || n, 'bulk.done', '{}', now(), now() FROM generate_series(1, 5000) AS n RETURNING id::text`,
  )
  const ids = rows.slice(0, 500).map(({ id }) => id)
  const plan = await planOf(database, sql, [ids, 'on-call', 'why', '"waybill".outbox_events', ...more])
  const lookUps = plan.filter(({ index }) => index === 'outbox_events_pkey').map(({ condition }) => condition)
  expect(lookUps).toEqual(
    expect.arrayContaining(['(id = asked.id)', expect.stringMatching(/^\(id = w(_\d)?\.id\)$/)]),
  )
  expect(plan.map(({ index }) => index)).not.toContain('outbox_events_dead')
})

it('newer revisions are looked for once for a whole aggregate, however many of its letters died', async () => {
  const rows = await database.rows<{ id: string }>(
    `INSERT INTO "waybill".outbox_events
       (aggregate_type, aggregate_id, event_type, payload, revision, dead_at, last_attempt_at)
     SELECT 'order', 'o-1', 'order.created', '{}', n, now(), now() FROM generate_series(1, 4000) AS n RETURNING id::text`,
  )
  const ids = rows.slice(0, 500).map(({ id }) => id)
  const table = database.sql('"waybill".outbox_events')
  const work = await workOf(database, retryStatement, [ids, 'on-call', 'why', table, false])
  // Each letter for itself would go through all that came after it: 1.9 million.
  expect(work.rows).toBeLessThan(30_000)
})

it('a letter that changes while it is waited for is judged, and recorded, as it is then', async () => {
  const [held, freed] = await plant(
    database,
    { ...dead, aggregate: ['order', '1'] },
    { ...dead, aggregate: ['order', '2'] },
  )
  const other = await database.connect()
  await other.query('BEGIN')
  await other.query(
    database.sql(`UPDATE "waybill".outbox_events SET attempts = 9, last_error = 'newer' WHERE id = $1`),
    [held!.id],
  )
  await other.query(database.sql('UPDATE "waybill".outbox_events SET dead_at = NULL WHERE id = $1'), [
    freed!.id,
  ])
  const running = retryDeadLetters(db, testSchema, { all: true })
  await untilOneWaits(database)
  await other.query('COMMIT')
  expect(await running).toMatchObject({ matched: 2, changed: 1, skipped: { 'changed-meanwhile': 1 } })
  expect(await database.rows('SELECT event_id::text, details FROM "waybill".decisions')).toMatchObject([
    { event_id: held!.id, details: { attempts: 9, error: 'newer' } },
  ])
})
