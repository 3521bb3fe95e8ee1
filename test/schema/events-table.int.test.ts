import { afterEach, beforeAll, describe, expect, test } from 'vitest'
import { type TestDatabase, createTestDatabase } from '../support/postgres.ts'

let db: TestDatabase

beforeAll(async () => {
  db = await createTestDatabase()
})
afterEach(() => db.query('TRUNCATE "waybill".outbox_events, "waybill".publication_heads'))

const insert = 'INSERT INTO "waybill".outbox_events (aggregate_type, aggregate_id, event_type, payload)'

describe('a plain INSERT of the four columns', () => {
  test('is a complete event', async () => {
    await db.query(
      `${insert} VALUES ('order', 'o-1', 'order.created', '{"total": 1.10, "id": 9007199254740993}')`,
    )
    const [row] = await db.rows(
      'SELECT *, payload::text AS body, created_at = now() AS fresh FROM "waybill".outbox_events',
    )
    expect(row).toMatchObject({
      id: expect.stringMatching(/^[0-9a-f-]{36}$/),
      body: '{"id": 9007199254740993, "total": 1.10}',
      headers: {},
      revision: null,
      intent_scope: '',
      operation_id: null,
      attempts: 0,
      crashes: 0,
      retry_after: null,
      last_attempt_at: null,
      last_error: null,
      processed_at: null,
      dead_at: null,
      discarded_at: null,
      holds: false,
      receipt: null,
      position: '1',
      xid: expect.stringMatching(/^\d+$/),
    })
    expect(row!.created_at).toBeInstanceOf(Date)
  })

  test.each([
    ['an empty aggregate type', ['', 'o', 't'], '23514'],
    ['an empty aggregate id', ['order', '', 't'], '23514'],
    ['an empty event type', ['order', 'o', ''], '23514'],
    ['an aggregate id of 256 characters', ['order', '😀'.repeat(256), 't'], '23514'],
    ['no aggregate id', ['order', null, 't'], '23502'],
  ])('with %s is refused', async (_, values, code) => {
    await expect(db.query(`${insert} VALUES ($1, $2, $3, '{}')`, values)).rejects.toMatchObject({ code })
  })

  test('cannot choose its position', async () => {
    await expect(
      db.query(`INSERT INTO "waybill".outbox_events (aggregate_type, aggregate_id, event_type, payload, position)
                VALUES ('a', 'b', 'c', '{}', 1)`),
    ).rejects.toMatchObject({ code: '428C9' })
  })

  test('knows the transaction that wrote it, also after others have changed it', async () => {
    const [writer] = await db.rows(
      `WITH written AS (${insert} VALUES ('a', 'b', 'c', '{}')) SELECT pg_current_xact_id()::text AS xid`,
    )
    await db.query('UPDATE "waybill".outbox_events SET processed_at = now()')
    expect(
      await db.rows('SELECT xid::text, xmin::text <> xid::text AS changed FROM "waybill".outbox_events'),
    ).toEqual([{ xid: writer!.xid, changed: true }])
  })
})

test('every index takes ids and scopes of the full length in four-byte characters', async () => {
  // Not repeated, so that nothing is compressed away.
  const random = (length: number) =>
    Array.from({ length }, () => String.fromCodePoint(0x1f300 + Math.floor(Math.random() * 0x2f0))).join('')
  await db.query(
    `INSERT INTO "waybill".outbox_events
       (aggregate_type, aggregate_id, event_type, payload, revision, intent_scope, last_attempt_at, dead_at, holds)
     VALUES ($1, $2, $3, '{}', 9223372036854775807, $4, now(), now(), true), ($1, $2, $3, '{}', 1, $4, now(), NULL, false)`,
    [random(255), random(255), random(255), random(100)],
  )
  await db.query(`INSERT INTO "waybill".publication_heads (aggregate_type, aggregate_id, intent_scope, revision, event_id)
    SELECT aggregate_type, aggregate_id, intent_scope, revision, id FROM "waybill".outbox_events LIMIT 1`)
  await db.query(
    `INSERT INTO "waybill".processed_events (consumer, event_id, result) VALUES ($1, $2, 'applied')`,
    [random(100), random(255)],
  )
  await db.query(
    `INSERT INTO "waybill".projection_revisions (projection, aggregate_type, aggregate_id, revision, event_id)
     VALUES ($1, $2, $3, 1, 'e')`,
    [random(100), random(255), random(255)],
  )
  await db.query(
    `INSERT INTO "waybill".consumer_effects (consumer, effect_key, event_id) VALUES ($1, $2, 'e')`,
    [random(100), random(500)],
  )
  expect((await db.rows('SELECT FROM "waybill".outbox_events')).length).toBe(2)
})

describe('the bucket of a pair', () => {
  // Stored rows carry these numbers: whoever changes the function strands them.
  test.each([
    ['order', 'o-1', 49],
    ['order', 'o-2', 1],
    ['a', 'bc', 1],
    ['ab', 'c', 28],
    ['note', 'ü 😀', 63],
  ])('never changes: %s %s is in %i', async (type, id, bucket) => {
    expect(await db.rows('SELECT "waybill".outbox_bucket($1, $2) AS bucket', [type, id])).toEqual([
      { bucket },
    ])
  })

  test('is stored with the row', async () => {
    await db.query(`${insert} VALUES ('order', 'o-1', 't', '{}')`)
    expect(
      await db.rows(
        'SELECT "waybill".outbox_bucket(aggregate_type, aggregate_id) AS bucket FROM "waybill".outbox_events',
      ),
    ).toEqual([{ bucket: 49 }])
  })

  test('spreads aggregates evenly', async () => {
    const rows = await db.rows(`SELECT count(*)::int AS n FROM generate_series(1, 64000) AS i
      GROUP BY "waybill".outbox_bucket('order', i::text)`)
    expect(rows).toHaveLength(64)
    // Six standard deviations around 1000.
    for (const { n } of rows) expect(Math.abs(n - 1000)).toBeLessThan(190)
  })
})

describe('the index of pending rows', () => {
  const read = `SELECT id FROM "waybill".outbox_events WHERE "waybill".outbox_bucket(aggregate_type, aggregate_id) = 5 AND position > 10
    AND processed_at IS NULL AND dead_at IS NULL AND discarded_at IS NULL ORDER BY position LIMIT 100`

  test('is what a relay reads with, without a sort', async () => {
    await db.query(`${insert} SELECT 'a', n::text, 't', '{}' FROM generate_series(1, 40000) AS n`)
    await db.query('ANALYZE "waybill".outbox_events')
    const plan = (await db.rows(`EXPLAIN (COSTS OFF) ${read}`)).map((row) => row['QUERY PLAN']).join('\n')
    expect(plan).toContain('Index Scan using outbox_events_pending')
    expect(plan).not.toMatch(/Sort|Filter/)
  })

  test('holds no row that is published, dead or discarded', async () => {
    await db.query(`${insert} SELECT 'a', n::text, 't', '{}' FROM generate_series(1, 4000) AS n`)
    await db.query(`UPDATE "waybill".outbox_events SET
      processed_at = CASE WHEN position % 4 = 1 THEN now() END,
      dead_at = CASE WHEN position % 4 = 2 THEN now() END,
      discarded_at = CASE WHEN position % 4 = 3 THEN now() END`)
    await db.query('VACUUM "waybill".outbox_events')
    const [row] = await db.rows(
      `SELECT reltuples::int AS n FROM pg_class WHERE relname = 'outbox_events_pending'`,
    )
    expect(row).toEqual({ n: 1000 })
  })
})

describe('the views', () => {
  test('outbox_dead_letters holds what is dead and neither published nor discarded', async () => {
    await db.query(`INSERT INTO "waybill".outbox_events
        (aggregate_type, aggregate_id, event_type, payload, attempts, dead_at, processed_at, discarded_at) VALUES
      ('a', 'dead', 't', '{}', 0, now(), NULL, NULL), ('a', 'retried', 't', '{}', 9, NULL, NULL, NULL),
      ('a', 'published', 't', '{}', 1, now(), now(), NULL), ('a', 'discarded', 't', '{}', 1, now(), NULL, now())`)
    expect(await db.rows('SELECT aggregate_id FROM "waybill".outbox_dead_letters')).toEqual([
      { aggregate_id: 'dead' },
    ])
  })

  test('publication_intents names each intent and its status', async () => {
    await db.query(`INSERT INTO "waybill".outbox_events
        (aggregate_type, aggregate_id, event_type, payload, revision, intent_scope, dead_at, processed_at, discarded_at) VALUES
      ('note', 'n-42', 't', '{}', 7, '', NULL, NULL, NULL), ('note', 'n-42', 't', '{}', 7, 'mail', now(), NULL, NULL),
      ('note', 'n-42', 't', '{}', 8, '', NULL, now(), NULL), ('note', 'n-42', 't', '{}', 9, '', NULL, NULL, now()),
      ('note', 'n-42', 't', '{}', NULL, '', NULL, NULL, NULL)`)
    const rows = await db.rows(
      'SELECT intent_key, status, relayed_at IS NOT NULL AS relayed FROM "waybill".publication_intents ORDER BY 1',
    )
    expect(rows).toEqual([
      { intent_key: 'n-42:7', status: 'pending', relayed: false },
      { intent_key: 'n-42:7#mail', status: 'dead', relayed: false },
      { intent_key: 'n-42:8', status: 'relayed', relayed: true },
      { intent_key: 'n-42:9', status: 'dead', relayed: false },
    ])
  })

  test('one revision can be written once for each scope', async () => {
    const intent = (scope: string) =>
      db.query(
        `INSERT INTO "waybill".outbox_events (aggregate_type, aggregate_id, event_type, payload, revision, intent_scope)
         VALUES ('note', 'n', 't', '{}', 1, $1)`,
        [scope],
      )
    await intent('')
    await intent('mail')
    await expect(intent('mail')).rejects.toMatchObject({
      code: '23505',
      constraint: 'outbox_events_revision',
    })
  })
})
