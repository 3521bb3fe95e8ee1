import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { type Connection, createConnection } from '../../src/database/connection.ts'
import {
  type DeadLetterReport,
  discardDeadLetters,
  listDeadLetters,
  retryDeadLetters,
} from '../../src/operations/dead-letters.ts'
import { currentUser } from '../../src/input.ts'
import { getEvent } from '../../src/operations/list-events.ts'
import { type TestDatabase, createTestDatabase, untilOneWaits } from '../support/postgres.ts'
import { testSchema } from '../support/target.ts'
import { dead, discarded, plant, plantPublished, published } from './plant.ts'

let database: TestDatabase
let db: Connection

beforeAll(async () => {
  database = await createTestDatabase()
  db = createConnection({ databaseUrl: database.url, schema: testSchema })
})
afterAll(() => db.close())
beforeEach(async () => {
  await database.query(
    'TRUNCATE "waybill".outbox_events, "waybill".decisions, "waybill".publication_heads RESTART IDENTITY',
  )
  await database.query('UPDATE "waybill".outbox_buckets SET rescan = 0')
})

const retry = (options: Parameters<typeof retryDeadLetters>[2]) => retryDeadLetters(db, testSchema, options)
const discard = (options: Parameters<typeof discardDeadLetters>[2]) =>
  discardDeadLetters(db, testSchema, options)
const stateOf = async (id: string) => (await getEvent(db, testSchema, id)).state
const raised = async () =>
  (await database.rows('SELECT bucket FROM "waybill".outbox_buckets WHERE rescan = 1 ORDER BY bucket')).map(
    (r) => r.bucket,
  )
const none = { overtaken: 0, 'not-found': 0, 'not-dead': 0, 'changed-meanwhile': 0 }
const unknownId = '0197c3a0-5b7e-7c1d-9a55-3f0c8e3f2b10'

describe('listDeadLetters', () => {
  it('gives the reason, and finds by aggregate, type, part of the reason and time', async () => {
    await plant(
      database,
      { ...dead, aggregate: ['order', '1'], lastError: 'no route for order.created' },
      { ...dead, aggregate: ['order', '2'], lastError: 'HTTP 413 Payload Too Large', deadAt: "'2026-01-01'" },
      { ...dead, aggregate: ['order', '3'], type: 'order.paid', lastError: '100% \\ wrong' },
      { ...discarded },
      {},
    )
    const positions = async (filter: Parameters<typeof listDeadLetters>[2]) =>
      (await listDeadLetters(db, testSchema, filter)).items.map(({ position }) => position)
    expect((await listDeadLetters(db, testSchema)).items[0]).toMatchObject({
      reason: 'no route for order.created',
      state: 'dead',
    })
    expect(await positions({})).toEqual(['1', '2', '3'])
    expect(await positions({ error: 'payload TOO' })).toEqual(['2'])
    expect(await positions({ error: '100% \\' })).toEqual(['3'])
    expect(await positions({ error: '1__%' })).toEqual([])
    expect(await positions({ before: '2026-01-02' })).toEqual(['2'])
    expect(await positions({ before: '2026-01-01T00:00:00Z' })).toEqual([])
    expect(await positions({ aggregate: ['order', '1'] })).toEqual(['1'])
    expect(await positions({ eventType: 'order.paid' })).toEqual(['3'])
  })

  it.each(['yesterday', '2026-01-01T10:00', '2026-13-01', ''])('refuses the time %j', async (before) => {
    await expect(listDeadLetters(db, testSchema, { before })).rejects.toMatchObject({ code: 'USAGE_INVALID' })
  })
})

describe('retryDeadLetters', () => {
  it('puts an event back to its old place as if never tried, wakes its relay, and records who decided', async () => {
    const [letter] = await plant(
      database,
      { ...dead, attempts: 8, holds: true },
      { aggregate: ['other', '1'] },
    )
    await database.query(
      'UPDATE "waybill".outbox_events SET crashes = 3, retry_after = now() WHERE id = $1',
      [letter!.id],
    )
    const listener = await database.connect()
    const woken = new Promise<string>((resolve) =>
      listener.on('notification', ({ channel }) => resolve(channel)),
    )
    const [table] = await database.rows<{ oid: string }>(
      `SELECT '"waybill".outbox_events'::regclass::oid AS oid`,
    )
    await listener.query(`LISTEN waybill_${table!.oid}`)

    expect(await retry({ ids: [letter!.id], reason: 'receiver fixed', decidedBy: 'on-call' })).toEqual({
      matched: 1,
      changed: 1,
      skipped: none,
      skippedEvents: [],
      complete: true,
    })
    expect(await getEvent(db, testSchema, letter!.id)).toMatchObject({
      ...{ state: 'pending', position: letter!.position, attempts: 0, crashes: 0, holds: false },
      ...{ deadAt: null, retryAfter: null, lastAttemptAt: null, lastError: 'HTTP 500' },
    })
    expect(await raised()).toEqual([letter!.bucket])
    expect(await woken).toBe(`waybill_${table!.oid}`)
    expect(
      await database.rows(
        'SELECT action, event_id, decided_by, reason, details, revision FROM "waybill".decisions',
      ),
    ).toEqual([
      {
        action: 'retried',
        event_id: letter!.id,
        decided_by: 'on-call',
        reason: 'receiver fixed',
        details: { attempts: 8, held: true, error: 'HTTP 500', allowOlder: false },
        revision: null,
      },
    ])
  })

  it('decides in the name of the user of the operating system when nobody says who', async () => {
    const [letter] = await plant(database, dead)
    await retry({ ids: [letter!.id] })
    const [decision] = await database.rows('SELECT decided_by FROM "waybill".decisions')
    expect(decision!.decided_by).toBe(currentUser())
  })

  it('refuses one id that is unknown, malformed, or no dead letter', async () => {
    const [letter] = await plant(database, published)
    await expect(retry({ ids: [unknownId] })).rejects.toMatchObject({ code: 'EVENT_NOT_FOUND' })
    await expect(retry({ ids: ['n-42'] })).rejects.toMatchObject({ code: 'USAGE_INVALID' })
    await expect(retry({ ids: [letter!.id] })).rejects.toMatchObject({
      code: 'ACTION_REFUSED',
      message: expect.stringMatching(/is not a dead letter/),
    })
  })

  it('counts several ids exactly and says why some were left', async () => {
    const [a, b, c] = await plant(database, dead, { ...dead, aggregate: ['n', '2'] }, discarded)
    const report = await retry({ ids: [a!.id, b!.id.toUpperCase(), a!.id, c!.id, unknownId, unknownId] })
    expect(report).toEqual({
      matched: 2,
      changed: 2,
      skipped: { ...none, 'not-found': 1, 'not-dead': 1 },
      skippedEvents: [
        { id: unknownId, reason: 'not-found' },
        { id: c!.id, reason: 'not-dead' },
      ],
      complete: true,
    })
    expect(await stateOf(c!.id)).toBe('discarded')
  })

  it.each([
    [{}, /one of the three/],
    [{ ids: [unknownId], all: true }, /one of the three/],
    [{ ids: [] }, /at least one event id/],
    [{ filter: {} }, /filter is empty/],
    [{ all: true, reason: '  ' }, /a reason is needed/],
    [{ filter: { before: 'x' } }, /expected before/],
  ])('refuses %j', async (options, message) => {
    await expect(retry(options)).rejects.toMatchObject({
      code: 'USAGE_INVALID',
      message: expect.stringMatching(message),
    })
  })

  it('retries by filter only what matches', async () => {
    const [a, b] = await plant(
      database,
      { ...dead, lastError: 'HTTP 413' },
      { ...dead, aggregate: ['n', '2'] },
    )
    expect(await retry({ filter: { error: '413' } })).toMatchObject({ matched: 1, changed: 1 })
    expect(await stateOf(a!.id)).toBe('pending')
    expect(await stateOf(b!.id)).toBe('dead')
  })

  describe('of an event that was overtaken', () => {
    it('is refused when a newer revision of its scope is out, unless older ones are allowed', async () => {
      const [letter] = await plant(database, { ...dead, revision: 7 }, { ...published, revision: 8 })
      await expect(retry({ ids: [letter!.id] })).rejects.toMatchObject({
        code: 'ACTION_REFUSED',
        message: expect.stringMatching(/was overtaken.*--allow-older/),
      })
      expect(await stateOf(letter!.id)).toBe('dead')
      expect(await database.rows('SELECT FROM "waybill".decisions')).toEqual([])
      expect(await raised()).toEqual([])
      expect(await retry({ ids: [letter!.id], allowOlder: true })).toMatchObject({ changed: 1 })
      const [decision] = await database.rows(
        'SELECT revision, intent_scope, details FROM "waybill".decisions',
      )
      expect(decision).toMatchObject({ revision: '7', intent_scope: '', details: { allowOlder: true } })
    })

    it('is refused when only the head still knows the newer revision', async () => {
      const [a, b] = await plant(
        database,
        { ...dead, aggregate: ['note', '1'], revision: 7 },
        { ...dead, aggregate: ['note', '2'], revision: 7 },
      )
      await database.query(
        `INSERT INTO "waybill".publication_heads (aggregate_type, aggregate_id, revision, event_id, relayed_revision)
         VALUES ('note', '1', 9, gen_random_uuid(), 8), ('note', '2', 9, gen_random_uuid(), 6)`,
      )
      await expect(retry({ ids: [a!.id] })).rejects.toMatchObject({ code: 'ACTION_REFUSED' })
      expect(await retry({ ids: [b!.id] })).toMatchObject({ changed: 1 })
    })

    it('is not refused for another scope, an older revision, or a newer one that is not out', async () => {
      const [letter] = await plant(
        database,
        { ...published, revision: 6 },
        { ...dead, revision: 7 },
        { ...published, revision: 8, scope: 'mail' },
        { revision: 9 },
      ).then((rows) => rows.slice(1))
      expect(await retry({ ids: [letter!.id] })).toMatchObject({ changed: 1 })
    })

    it('without revisions is refused when a later event of its aggregate is published', async () => {
      const [first, , other, last] = await plant(
        database,
        dead,
        published,
        { ...dead, aggregate: ['order', 'o-2'] },
        dead,
      )
      await expect(retry({ ids: [first!.id] })).rejects.toMatchObject({ code: 'ACTION_REFUSED' })
      expect(await retry({ ids: [other!.id] })).toMatchObject({ changed: 1 })
      expect(await retry({ ids: [last!.id] })).toMatchObject({ changed: 1 })
      expect(await retry({ ids: [first!.id], allowOlder: true })).toMatchObject({ changed: 1 })
    })

    it('is skipped and counted among many', async () => {
      const [a, , , d] = await plant(
        database,
        dead,
        { ...dead, revision: 3, aggregate: ['note', '1'] },
        { ...published, revision: 4, aggregate: ['note', '1'] },
        { ...dead, aggregate: ['free', '1'] },
        published,
        { ...dead, aggregate: ['order', 'o-1'] },
      )
      const report = await retry({ all: true })
      expect(report).toMatchObject({
        matched: 4,
        changed: 2,
        skipped: { ...none, overtaken: 2 },
        complete: true,
      })
      expect(report.skippedEvents[0]).toEqual({ id: a!.id, reason: 'overtaken' })
      expect(await stateOf(d!.id)).toBe('pending')
    })

    it('is found behind tens of thousands of other events', async () => {
      const [letter] = await plant(database, dead)
      await plantPublished(database, 60_000)
      await plant(database, published)
      await expect(retry({ ids: [letter!.id] })).rejects.toMatchObject({ code: 'ACTION_REFUSED' })
    })
  })

  describe('of many', () => {
    const plantDead = (count: number) =>
      database.query(
        `INSERT INTO "waybill".outbox_events
           (aggregate_type, aggregate_id, event_type, payload, attempts, last_error, last_attempt_at, dead_at)
         SELECT 'many', n::text, 'many.x', '{}', 8, 'HTTP 500', now(), now() FROM generate_series(1, $1::int) AS n`,
        [count],
      )

    it('works in chunks, says how far it is, and resumes where it was stopped', async () => {
      await plantDead(1700)
      const stop = new AbortController()
      const progress: number[] = []
      const first = await retry({
        all: true,
        signal: stop.signal,
        onProgress: ({ changed }) => {
          progress.push(changed)
          if (changed === 1000) stop.abort()
        },
      })
      expect(first).toMatchObject({ matched: 1000, changed: 1000, complete: false })
      expect(progress).toEqual([500, 1000])
      expect(await retry({ all: true })).toMatchObject({ matched: 700, changed: 700, complete: true })
      const [counts] = await database.rows(
        `SELECT count(*) FILTER (WHERE dead_at IS NULL)::int AS back, count(DISTINCT d.event_id)::int AS decided
         FROM "waybill".outbox_events AS e LEFT JOIN "waybill".decisions AS d ON d.event_id = e.id`,
      )
      expect(counts).toEqual({ back: 1700, decided: 1700 })
    })

    it('gets further with each call, however short its time: what is left alone does not count', async () => {
      await plantDead(600)
      await database.query(
        `INSERT INTO "waybill".outbox_events (aggregate_type, aggregate_id, event_type, payload, processed_at)
         SELECT 'many', n::text, 'many.x', '{}', now() FROM generate_series(1, 600) AS n`,
      )
      await database.query(
        `INSERT INTO "waybill".outbox_events (aggregate_type, aggregate_id, event_type, payload, last_attempt_at, dead_at)
         SELECT 'more', n::text, 'many.x', '{}', now(), now() FROM generate_series(1, 900) AS n`,
      )
      const first = await retry({ all: true, timeLimitMs: 0 })
      expect(first).toMatchObject({ changed: 400, skipped: { overtaken: 600 }, complete: false })
      const second = await retry({ all: true, timeLimitMs: 0 })
      expect(second).toMatchObject({ changed: 400, skipped: { overtaken: 600 }, complete: false })
      expect(await retry({ all: true })).toMatchObject({ changed: 100, complete: true })
    })

    it('never changes one event twice when two people do it at once', async () => {
      await plantDead(1200)
      const other = createConnection({ databaseUrl: database.url, schema: testSchema })
      const reports: DeadLetterReport[] = await Promise.all([
        retryDeadLetters(db, testSchema, { all: true }),
        discardDeadLetters(other, testSchema, { all: true, reason: 'not needed' }),
      ])
      await other.close()
      const [decided] = await database.rows(
        'SELECT count(*)::int AS all, count(DISTINCT event_id)::int AS events FROM "waybill".decisions',
      )
      expect(decided).toEqual({ all: 1200, events: 1200 })
      expect(reports[0]!.changed + reports[1]!.changed).toBe(1200)
      for (const { matched, changed, skipped } of reports) {
        expect(matched).toBe(changed + skipped['changed-meanwhile'])
      }
    })

    it('waits for a relay that settles a batch of the same bucket, and changes nothing twice', async () => {
      const [letter] = await plant(database, dead)
      const relay = await database.connect()
      await relay.query('BEGIN')
      await relay.query(database.sql('SELECT FROM "waybill".outbox_buckets WHERE bucket = $1 FOR SHARE'), [
        letter!.bucket,
      ])
      // Listened to from the beginning: it may be over before the commit is told.
      const refusal = retry({ ids: [letter!.id] }).then(
        () => undefined,
        (error: unknown) => error,
      )
      await untilOneWaits(database)
      await relay.query(database.sql('UPDATE "waybill".outbox_events SET dead_at = NULL WHERE id = $1'), [
        letter!.id,
      ])
      await relay.query('COMMIT')
      expect(await refusal).toMatchObject({ code: 'ACTION_REFUSED' })
      expect(await database.rows('SELECT FROM "waybill".decisions')).toEqual([])
    })
  })
})

describe('discardDeadLetters', () => {
  it('keeps the row, lets a held aggregate go, and records why', async () => {
    const [letter, later] = await plant(database, { ...dead, holds: true, revision: 2 }, { revision: 3 })
    expect(await stateOf(later!.id)).toBe('blocked')
    expect(await discard({ ids: [letter!.id], reason: 'test data', decidedBy: 'on-call' })).toMatchObject({
      changed: 1,
    })
    expect(await getEvent(db, testSchema, letter!.id)).toMatchObject({
      ...{ state: 'discarded', holds: false, attempts: 8 },
      deadAt: expect.any(String),
    })
    expect(await stateOf(later!.id)).toBe('pending')
    expect(await raised()).toEqual([letter!.bucket])
    expect(
      await database.rows('SELECT action, reason, decided_by, revision FROM "waybill".decisions'),
    ).toEqual([{ action: 'discarded', reason: 'test data', decided_by: 'on-call', revision: '2' }])
  })

  it('does not disturb the relays for a letter that held nobody back', async () => {
    const [letter] = await plant(database, dead)
    await discard({ ids: [letter!.id], reason: 'test data' })
    expect(await stateOf(letter!.id)).toBe('discarded')
    expect(await raised()).toEqual([])
  })

  it('needs a reason', async () => {
    await expect(discard({ all: true, reason: '' })).rejects.toMatchObject({ code: 'USAGE_INVALID' })
  })
})

it('works in a schema with any name', async () => {
  const schema = `My"Schema o'b`
  const odd = await createTestDatabase({ schema })
  const connection = createConnection({ databaseUrl: odd.url, schema })
  const [letter, other] = await plant(odd, { ...dead, holds: true }, { ...dead, aggregate: ['n', '2'] })
  expect(await retryDeadLetters(connection, schema, { ids: [letter!.id] })).toMatchObject({ changed: 1 })
  expect(await discardDeadLetters(connection, schema, { all: true, reason: 'x' })).toMatchObject({
    changed: 1,
  })
  expect((await getEvent(connection, schema, letter!.id)).state).toBe('pending')
  expect((await getEvent(connection, schema, other!.id)).state).toBe('discarded')
  await connection.close()
})
