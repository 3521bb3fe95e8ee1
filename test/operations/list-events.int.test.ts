import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { type Connection, createConnection } from '../../src/database/connection.ts'
import { checkEventFilter, conditionValues } from '../../src/operations/event-filter.ts'
import { itemColumns } from '../../src/operations/event-item.ts'
import { getEvent, listEvents } from '../../src/operations/list-events.ts'
import { matchStatement, walk, windowStatement } from '../../src/operations/walk.ts'
import { type TestDatabase, createTestDatabase } from '../support/postgres.ts'
import { testSchema } from '../support/target.ts'
import { planOf, workOf } from './plan.ts'
import { dead, discarded, failing, plant, plantPublished, published } from './plant.ts'

let database: TestDatabase
let db: Connection

beforeAll(async () => {
  database = await createTestDatabase()
  db = createConnection({ databaseUrl: database.url, schema: testSchema })
})
afterAll(() => db.close())
beforeEach(() => database.query('TRUNCATE "waybill".outbox_events RESTART IDENTITY'))

const list = (options: Parameters<typeof listEvents>[2] = {}) => listEvents(db, testSchema, options)

describe('the state of an event', () => {
  const stateOf = async (id: string) => (await getEvent(db, testSchema, id)).state

  it('is one of the six words, from the row and from what lies before it', async () => {
    const a = ['order', 'a'] as const
    const b = ['order', 'b'] as const
    const rows = await plant(
      database,
      { ...published, aggregate: a },
      { ...discarded, aggregate: a },
      { ...failing, aggregate: a },
      { aggregate: a },
      { ...failing, aggregate: a },
      { aggregate: b },
      { ...dead, aggregate: b },
      { aggregate: b },
    )
    const states: string[] = []
    for (const { id } of rows) states.push(await stateOf(id))
    expect(states).toEqual([
      'published',
      'discarded',
      'retrying',
      'blocked',
      'blocked',
      'pending',
      'dead',
      'pending',
    ])
  })

  it('is blocked behind a dead letter that holds, and says behind which', async () => {
    const [, held, later] = await plant(database, { ...dead }, { ...dead, holds: true }, {})
    expect(await getEvent(db, testSchema, later!.id)).toMatchObject({ state: 'blocked', blockedBy: held!.id })
    expect(await getEvent(db, testSchema, held!.id)).toMatchObject({ state: 'dead', blockedBy: null })
  })

  it('does not depend on the same id under another type, or on later events', async () => {
    const [, , free] = await plant(
      database,
      { ...failing, aggregate: ['invoice', 'x'] },
      { ...failing, aggregate: ['order', 'y'] },
      { aggregate: ['order', 'x'] },
      { ...failing, aggregate: ['order', 'x'] },
    )
    expect(await stateOf(free!.id)).toBe('pending')
  })
})

describe('getEvent', () => {
  it('gives 64-bit numbers as text, times to the microsecond, and the payload only when asked for', async () => {
    const payload = '{"big": 9007199254740993, "price": 1.10}'
    const [row] = await plant(database, {
      payload,
      revision: 7,
      createdAt: "'2026-03-01 12:00:00.123456+02'",
      processedAt: "'2026-03-01 10:00:01Z'",
      receipt: 'kafka:orders/3@1042',
    })
    const event = await getEvent(db, testSchema, row!.id.toUpperCase())
    expect(event).toEqual({
      id: row!.id,
      position: '1',
      state: 'published',
      aggregateType: 'order',
      aggregateId: 'o-1',
      eventType: 'order.created',
      revision: '7',
      intentScope: '',
      operationId: null,
      attempts: 0,
      crashes: 0,
      createdAt: '2026-03-01T10:00:00.123456Z',
      processedAt: '2026-03-01T10:00:01.000000Z',
      lastAttemptAt: null,
      retryAfter: null,
      deadAt: null,
      discardedAt: null,
      holds: false,
      lastError: null,
      receipt: 'kafka:orders/3@1042',
      blockedBy: null,
    })
    const full = await getEvent(db, testSchema, row!.id, { withPayload: true })
    expect(full.payload).toBe(payload)
    expect(full.headers).toEqual({})
  })

  it('tells an unknown id from a malformed one', async () => {
    const unknown = '0197c3a0-5b7e-7c1d-9a55-3f0c8e3f2b10'
    await expect(getEvent(db, testSchema, unknown)).rejects.toMatchObject({ code: 'EVENT_NOT_FOUND' })
    await expect(getEvent(db, testSchema, "1'; DROP TABLE x")).rejects.toMatchObject({
      code: 'USAGE_INVALID',
      message: expect.stringMatching(/^expected an event id to be a UUID/),
    })
  })
})

describe('listEvents', () => {
  it('pages through everything in position order, each event once', async () => {
    const rows = await plant(
      database,
      ...Array.from({ length: 7 }, (_, i) => ({ aggregate: ['n', `${i}`] as const })),
    )
    const seen: string[] = []
    let after: string | null = null
    let pages = 0
    do {
      const page: Awaited<ReturnType<typeof list>> = await list({ limit: 3, after })
      seen.push(...page.items.map(({ id }) => id))
      after = page.next
      pages++
    } while (after !== null)
    expect(seen).toEqual(rows.map(({ id }) => id))
    expect(pages).toBe(3)
  })

  it('ends with next null also when the last page is full', async () => {
    await plant(database, {}, {}, {})
    expect((await list({ limit: 3 })).next).toBeNull()
    expect((await list({ limit: 2 })).next).not.toBeNull()
  })

  it('finds each state, alone and together, over many buckets', async () => {
    const kinds = { published, failing, dead, discarded, fresh: {} }
    for (let i = 0; i < 12; i++) {
      for (const kind of Object.values(kinds)) await plant(database, { ...kind, aggregate: ['n', `${i}`] })
    }
    const states = async (...states: string[]) => (await list({ states, limit: 1000 })).items
    for (const [state, count] of Object.entries({
      published: 12,
      retrying: 12,
      dead: 12,
      discarded: 12,
      blocked: 12,
    })) {
      const items = await states(state)
      expect(items.map((item) => item.state)).toEqual(Array(count).fill(state))
    }
    expect(await states('pending')).toEqual([])
    const mixed = await states('dead', 'blocked', 'retrying')
    expect(mixed).toHaveLength(36)
    const positions = mixed.map(({ position }) => Number(position))
    expect(positions).toEqual(positions.toSorted((a, b) => a - b))
    expect(await states('dead', 'published')).toHaveLength(24)
  })

  it('pages through two sources without losing or repeating any', async () => {
    for (let i = 0; i < 10; i++)
      await plant(database, { ...dead, aggregate: ['n', `${i}`] }, { aggregate: ['n', `${i}`] })
    const positions: string[] = []
    let after: string | null = null
    do {
      const page: Awaited<ReturnType<typeof list>> = await list({
        states: ['dead', 'pending'],
        limit: 3,
        after,
      })
      positions.push(...page.items.map(({ position }) => position))
      after = page.next
    } while (after !== null)
    expect(positions).toEqual(Array.from({ length: 20 }, (_, i) => String(i + 1)))
  })

  it('filters by aggregate and by type', async () => {
    await plant(
      database,
      { aggregate: ['order', '1'], type: 'order.created' },
      { aggregate: ['order', '2'], type: 'order.created' },
      { ...published, aggregate: ['order', '1'], type: 'order.paid' },
      { aggregate: ['invoice', '1'], type: 'order.created' },
    )
    const positions = async (options: Parameters<typeof list>[0]) =>
      (await list(options)).items.map(({ position }) => position)
    expect(await positions({ aggregate: ['order', '1'] })).toEqual(['1', '3'])
    expect(await positions({ aggregate: ['order', '1'], states: ['pending'] })).toEqual(['1'])
    expect(await positions({ eventType: 'order.created' })).toEqual(['1', '2', '4'])
    expect(await positions({ aggregate: ['order', '1'], eventType: 'order.paid' })).toEqual(['3'])
    expect(await positions({ aggregate: ['order', "1' OR true --"] })).toEqual([])
  })

  it('finds a rare event behind thousands of published ones by small windows', async () => {
    await plantPublished(database, 6000)
    const [needle] = await plant(database, { ...published, aggregate: ['order', 'rare'] })
    await plantPublished(database, 100)
    const page = await list({ aggregate: ['order', 'rare'] })
    expect(page.items.map(({ id }) => id)).toEqual([needle!.id])
    expect(page.next).toBeNull()
  })

  it('loses nothing where one window ends and the next begins', async () => {
    await plantPublished(database, 998)
    await plant(database, published, published, published, published)
    const page = await list({ aggregate: ['order', 'o-1'] })
    expect(page.items.map(({ position }) => position)).toEqual(['999', '1000', '1001', '1002'])
  })

  it('repeats nothing when its time is over in one of two sources', async () => {
    await database.query(
      `INSERT INTO "waybill".outbox_events (aggregate_type, aggregate_id, event_type, payload, last_attempt_at, dead_at)
       SELECT 'n', n::text, 'other', '{}', now(), now() FROM generate_series(1, 1500) AS n`,
    )
    await plant(database, { ...dead, type: 'wanted' }, { aggregate: ['n', 'x'], type: 'wanted' })
    const options = { eventType: 'wanted', states: ['dead', 'pending'] }
    const first = await list({ ...options, timeLimitMs: 0 })
    const second = await list({ ...options, after: first.next })
    expect([...first.items, ...second.items].map(({ position }) => position)).toEqual(['1501', '1502'])
    expect(second.next).toBeNull()
  })

  it('gives a short page with a way on when its time is over', async () => {
    await plantPublished(database, 3000)
    const [needle] = await plant(database, { aggregate: ['order', 'rare'], ...published })
    const first = await list({ aggregate: ['order', 'rare'], timeLimitMs: 0 })
    expect(first.items).toEqual([])
    expect(first.next).not.toBeNull()
    const second = await list({ aggregate: ['order', 'rare'], after: first.next })
    expect(second.items.map(({ id }) => id)).toEqual([needle!.id])
  })

  it('has payload and headers only when asked for', async () => {
    await plant(database, { payload: '{"a": 1.10}' })
    expect((await list()).items[0]).not.toHaveProperty('payload')
    expect((await list({ withPayload: true })).items[0]).toMatchObject({
      payload: '{"a": 1.10}',
      headers: {},
    })
  })

  it.each([
    [{ states: ['retryng'] }, /unknown state "retryng", did you mean "retrying"/],
    [{ states: ['x'] }, /expected one of pending, retrying/],
    [{ limit: 0 }, /limit to be an integer from 1 to 1000, got 0/],
    [{ limit: 1001 }, /limit/],
    [{ limit: 1.5 }, /limit/],
    [{ after: 'bm9uc2Vuc2U' }, /not one of ours/],
    [{ after: '' }, /not one of ours/],
    [{ after: `${Buffer.from('p:12').toString('base64url')}!` }, /not one of ours/],
    [{ after: Buffer.from('p:9223372036854775808').toString('base64url') }, /not one of ours/],
    [{ aggregate: ['', 'x'] as const }, /aggregate type to be text of 1 to 255/],
    [{ aggregate: ['x', 'y'.repeat(256)] as const }, /aggregate id/],
    [{ eventType: 'a\u0000b' }, /event type/],
  ])('refuses %j in one sentence', async (options, message) => {
    await expect(list(options)).rejects.toMatchObject({
      code: 'USAGE_INVALID',
      message: expect.stringMatching(message),
    })
  })

  it('takes ids of 255 characters, emoji included', async () => {
    const id = '😀'.repeat(255)
    await plant(database, { aggregate: ['order', id] })
    expect((await list({ aggregate: ['order', id] })).items).toHaveLength(1)
  })
})

describe('cost', () => {
  beforeEach(async () => {
    await plantPublished(database, 20_000)
    for (let i = 0; i < 20; i++)
      await plant(database, { aggregate: ['n', `${i}`] }, { ...dead, aggregate: ['n', `${i}`] })
    await database.query('VACUUM ANALYZE "waybill".outbox_events')
  })

  it.each([
    ['all', 'outbox_events_position'],
    ['dead', 'outbox_events_dead'],
    ['unsettled', 'outbox_events_pending'],
  ] as const)('finds the end of a window of "%s" from the index %s alone', async (source, index) => {
    const { nodes: plan } = await workOf(database, windowStatement(source, 'oldest'), ['-1', 1000])
    // The bucket is an expression over columns that the index does not hold.
    const node = source === 'unsettled' ? 'Index Scan' : 'Index Only Scan'
    expect(plan).toContainEqual(expect.objectContaining({ node, index }))
    expect(plan.filter(({ node }) => node === 'Seq Scan').length).toBeLessThanOrEqual(
      source === 'unsettled' ? 2 : 0,
    )
  })

  it.each([
    ['all', 'outbox_events_position'],
    ['dead', 'outbox_events_dead'],
    ['unsettled', 'outbox_events_pending'],
  ] as const)('reads a window of "%s" as a range of the index %s', async (source, index) => {
    const conditions = checkEventFilter({ aggregate: ['n', '3'], states: ['blocked', 'dead', 'published'] })
    const plan = await planOf(database, matchStatement(source, 'oldest', itemColumns(false)), [
      ...['-1', '5000', 51],
      ...conditionValues(conditions),
    ])
    expect(plan).toContainEqual(
      expect.objectContaining({ index, condition: expect.stringMatching(/"position" > .*"position" <= /) }),
    )
    expect(plan.map(({ index }) => index)).not.toContain('outbox_events_pkey')
  })

  it('walks in windows that end where the source says', async () => {
    const statements: string[] = []
    const counting: Connection = {
      ...db,
      query: (text, ...rest) => {
        statements.push(text)
        return db.query(text, ...rest)
      },
    }
    const conditions = checkEventFilter({ eventType: 'nothing.of.this' })
    const walked = await walk({
      ...{ db: counting, schema: testSchema, source: 'all', conditions, columns: itemColumns(false) },
      order: 'oldest',
      after: '-1',
      need: 10,
    })
    expect(walked).toEqual({ rows: [], upTo: null })
    // 20 040 rows in windows of 1 000, 4 000, 16 000: two statements for each.
    expect(statements).toHaveLength(6)
  })
})
