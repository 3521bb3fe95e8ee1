import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { type Connection, createConnection } from '../../src/database/connection.ts'
import { prune } from '../../src/operations/prune.ts'
import { lookStatement, removeStatement } from '../../src/operations/prune-statements.ts'
import { createPruner } from '../../src/operations/pruner.ts'
import { claimTask, finishTask, renewTask } from '../../src/operations/task-lease.ts'
import { type TelemetryEvents, createTelemetry } from '../../src/telemetry/events.ts'
import { type TestDatabase, createTestDatabase } from '../support/postgres.ts'
import { testSchema } from '../support/target.ts'
import { planOf } from './plan.ts'
import { dead, discarded, failing, plant, plantPublished } from './plant.ts'

let database: TestDatabase
let db: Connection

beforeAll(async () => {
  database = await createTestDatabase()
  db = createConnection({ databaseUrl: database.url, schema: testSchema })
})
afterAll(() => db.close())
beforeEach(async () => {
  await database.query(
    'TRUNCATE "waybill".outbox_events, "waybill".publication_heads, "waybill".replays, "waybill".outbox_relays RESTART IDENTITY',
  )
  await database.query(
    'UPDATE "waybill".outbox_tasks SET owner = NULL, leased_until = NULL, finished_at = NULL, result = NULL',
  )
})

const weekOld = { createdAt: "now() - interval '9 days'", processedAt: "now() - interval '8 days'" }
const sweep = (options: Partial<Parameters<typeof prune>[2]> = {}) =>
  prune(db, testSchema, { processedDays: 7, ...options })
const left = async () =>
  (await database.rows('SELECT position::int FROM "waybill".outbox_events ORDER BY position')).map(
    (row) => row.position,
  )
const heads = () =>
  database.rows(
    'SELECT aggregate_id, revision, relayed_revision, relayed_at IS NOT NULL AS relayed FROM "waybill".publication_heads ORDER BY 1',
  )

describe('prune', () => {
  it('removes what was processed long enough ago and nothing else', async () => {
    const old = { createdAt: "now() - interval '30 days'" }
    await plant(
      database,
      { ...weekOld },
      { ...old },
      { ...old, ...failing },
      { ...old, ...dead },
      { ...old, ...discarded },
      { ...old, processedAt: "now() - interval '6 days'" },
      { ...weekOld },
      {},
    )
    expect(await sweep()).toMatchObject({ deleted: 2, prunable: 2, complete: true })
    expect(await left()).toEqual([2, 3, 4, 5, 6, 8])
  })

  it('only counts on a dry run', async () => {
    await plant(database, weekOld, weekOld, {})
    expect(await sweep({ dryRun: true })).toMatchObject({ deleted: 0, prunable: 2, complete: true })
    expect(await left()).toEqual([1, 2, 3])
  })

  it('takes batches of a thousand, can be stopped between them, and goes on later', async () => {
    await plantPublished(database, 2500, "now() - interval '8 days'")
    const stop = new AbortController()
    const seen: number[] = []
    const report = await sweep({
      signal: stop.signal,
      onProgress: ({ deleted }) => {
        seen.push(deleted)
        stop.abort()
      },
    })
    expect(report).toMatchObject({ deleted: 1000, complete: false })
    expect(seen).toEqual([1000])
    expect(await sweep()).toMatchObject({ deleted: 1500, complete: true })
  })

  it('finds old events behind thousands that stay', async () => {
    await database.query(
      `INSERT INTO "waybill".outbox_events (aggregate_type, aggregate_id, event_type, payload, created_at, dead_at, last_attempt_at)
       SELECT 'n', n::text, 'x', '{}', now() - interval '20 days', now(), now() FROM generate_series(1, 2500) AS n`,
    )
    await plant(database, weekOld)
    expect(await sweep()).toMatchObject({ deleted: 1 })
  })

  it('does not look at what was created after the cutoff', async () => {
    await plant(database, weekOld)
    await plantPublished(database, 5000)
    let batches = 0
    await sweep({ onProgress: () => batches++ })
    expect(batches).toBe(2)
  })

  it('leaves an event whose replay is still open', async () => {
    const [row] = await plant(database, weekOld, weekOld)
    await database.query(
      `INSERT INTO "waybill".replays (event_id, number, requested_by, reason) VALUES ($1, 1, 'on-call', 'x')`,
      [row!.id],
    )
    expect(await sweep({ dryRun: true })).toMatchObject({ prunable: 1 })
    expect(await sweep()).toMatchObject({ deleted: 1 })
    expect(await left()).toEqual([1])
  })

  it('refuses a number of days that makes no sense', async () => {
    await expect(sweep({ processedDays: -1 })).rejects.toMatchObject({ code: 'USAGE_INVALID' })
    await expect(sweep({ processedDays: Number.NaN })).rejects.toMatchObject({ code: 'USAGE_INVALID' })
  })

  describe('of publications', () => {
    const head = (id: string, revision: number, relayed: number | null = null) =>
      database.query(
        `INSERT INTO "waybill".publication_heads (aggregate_type, aggregate_id, revision, event_id, relayed_revision)
         VALUES ('note', $1, $2, gen_random_uuid(), $3)`,
        [id, revision, relayed],
      )
    const note = (id: string, revision: number) => ({
      ...weekOld,
      aggregate: ['note', id] as const,
      revision,
    })

    it('records the newest relayed revision before its row goes', async () => {
      await head('a', 2)
      await head('b', 9, 8)
      await head('c', 5, 5)
      await plant(database, note('a', 1), note('a', 2), note('b', 7), note('c', 5))
      expect(await sweep()).toMatchObject({ deleted: 4 })
      expect(await heads()).toEqual([
        { aggregate_id: 'a', revision: '2', relayed_revision: '2', relayed: true },
        { aggregate_id: 'b', revision: '9', relayed_revision: '8', relayed: false },
        { aggregate_id: 'c', revision: '5', relayed_revision: '5', relayed: true },
      ])
    })

    it('makes a head for revisions that plain SQL has written', async () => {
      await plant(database, note('sql', 3), { aggregate: ['note', 'sql'], revision: 4 })
      expect(await sweep()).toMatchObject({ deleted: 1 })
      expect(await heads()).toEqual([
        { aggregate_id: 'sql', revision: '4', relayed_revision: '3', relayed: false },
      ])
    })

    it('does not wait for a writer that holds a head: that event stays this time', async () => {
      await head('a', 1)
      await head('b', 1)
      await plant(database, note('a', 1), note('b', 1))
      const writer = await database.connect()
      await writer.query('BEGIN')
      await writer.query(
        database.sql(`UPDATE "waybill".publication_heads SET revision = 2 WHERE aggregate_id = 'a'`),
      )
      expect(await sweep()).toMatchObject({ deleted: 1, prunable: 2 })
      expect(await left()).toEqual([1])
      await writer.query('COMMIT')
      expect(await sweep()).toMatchObject({ deleted: 1 })
      expect(await heads()).toMatchObject([
        { aggregate_id: 'a', revision: '2', relayed_revision: '1', relayed: false },
        { aggregate_id: 'b', relayed_revision: '1', relayed: true },
      ])
    })

    it('does not wait for a writer that is just making the same head', async () => {
      await plant(database, note('new', 1), weekOld)
      const writer = await database.connect()
      await writer.query('BEGIN')
      await writer.query(
        database.sql(`INSERT INTO "waybill".publication_heads (aggregate_type, aggregate_id, revision, event_id)
         VALUES ('note', 'new', 2, gen_random_uuid())`),
      )
      expect(await sweep()).toMatchObject({ deleted: 1, prunable: 2 })
      await writer.query('ROLLBACK')
      expect(await sweep()).toMatchObject({ deleted: 1 })
    })
  })

  it('does not wait for a transaction that holds an old event: that one stays this time', async () => {
    const [row] = await plant(database, weekOld, weekOld)
    const writer = await database.connect()
    await writer.query('BEGIN')
    await writer.query(database.sql('SELECT FROM "waybill".outbox_events WHERE id = $1 FOR KEY SHARE'), [
      row!.id,
    ])
    await writer.query(
      database.sql(
        `INSERT INTO "waybill".outbox_events (aggregate_type, aggregate_id, event_type, payload) VALUES ('o', '1', 'x', '{}')`,
      ),
    )
    expect(await sweep()).toMatchObject({ deleted: 1 })
    await writer.query('COMMIT')
    expect(await left()).toEqual([1, 3])
  })

  describe('with an archive', () => {
    it('moves events there with every column', async () => {
      await database.query('CREATE TABLE "waybill".archive (LIKE "waybill".outbox_events)')
      const [row] = await plant(database, { ...weekOld, payload: '{"a": 1.10}' })
      const [before] = await database.rows('SELECT * FROM "waybill".outbox_events')
      expect(await sweep({ archive: { table: 'archive' } })).toMatchObject({ deleted: 1 })
      expect(await database.rows('SELECT * FROM "waybill".archive')).toEqual([before])
      expect(before!.id).toBe(row!.id)
      expect(await left()).toEqual([])
      await database.query('DROP TABLE "waybill".archive')
    })

    it('says how to make the table, or the column that it lacks', async () => {
      await plant(database, weekOld)
      const archive = { schema: 'public', table: 'Old "events"' }
      await expect(sweep({ archive })).rejects.toMatchObject({
        code: 'CONFIGURATION_INVALID',
        message: expect.stringContaining(
          database.sql('CREATE TABLE "public"."Old ""events""" (LIKE "waybill".outbox_events)'),
        ),
      })
      await database.query('CREATE TABLE public."Old ""events""" (LIKE "waybill".outbox_events)')
      await database.query('ALTER TABLE public."Old ""events""" DROP COLUMN receipt')
      await expect(sweep({ archive })).rejects.toMatchObject({
        code: 'CONFIGURATION_INVALID',
        message: expect.stringContaining('ADD COLUMN "receipt" text'),
      })
      expect(await left()).toEqual([1])
    })
  })

  it('looks and deletes through the index of positions, one window at a time', async () => {
    await plantPublished(database, 20_000, "now() - interval '8 days'")
    await database.query('VACUUM ANALYZE "waybill".outbox_events')
    const cutoff = '2026-01-01T00:00:00Z'
    const look = await planOf(database, lookStatement, ['5000', '6000', cutoff])
    expect(look).toContainEqual(
      expect.objectContaining({
        index: 'outbox_events_position',
        condition: expect.stringMatching(/"position" > .*"position" <= /),
      }),
    )
    const remove = await planOf(database, removeStatement(testSchema, undefined), ['5000', '6000', cutoff])
    expect(remove).toContainEqual(
      expect.objectContaining({
        index: 'outbox_events_position',
        condition: expect.stringMatching(/"position" > .*"position" <= /),
      }),
    )
  })
})

describe('a task', () => {
  const lease = (owner: string) =>
    ({ db, schema: testSchema, name: 'prune', owner, leaseMs: 60_000 }) as const

  it('has one owner at a time, and the next turn comes after the interval', async () => {
    const [a, b] = [lease(randomUUID()), lease(randomUUID())]
    expect(await claimTask(a, 60_000)).toBe(true)
    expect(await claimTask(b, 60_000)).toBe(false)
    expect(await renewTask(a)).toBe(true)
    expect(await renewTask(b)).toBe(false)
    await finishTask(b, { stolen: true })
    expect(await renewTask(a)).toBe(true)
    await finishTask(a, { deleted: 1 })
    const [row] = await database.rows(`SELECT result, owner FROM "waybill".outbox_tasks WHERE name = 'prune'`)
    expect(row).toEqual({ result: { deleted: 1 }, owner: null })
    expect(await claimTask(b, 60_000)).toBe(false)
    expect(await claimTask(b, 0)).toBe(true)
  })

  it('goes to the next one when its owner says nothing any more', async () => {
    const [a, b] = [lease(randomUUID()), lease(randomUUID())]
    expect(await claimTask(a, 0)).toBe(true)
    await database.query(
      `UPDATE "waybill".outbox_tasks SET leased_until = clock_timestamp() - interval '1 second'`,
    )
    expect(await claimTask(b, 0)).toBe(true)
    expect(await renewTask(a)).toBe(false)
  })

  it('is not stopped by a moment in the future', async () => {
    await database.query(`UPDATE "waybill".outbox_tasks SET finished_at = now() + interval '3 years'`)
    expect(await claimTask(lease(randomUUID()), 60_000)).toBe(true)
  })
})

describe('the pruner', () => {
  function start(options: { archive?: { table: string } } = {}) {
    const telemetry = createTelemetry()
    const finished = new Promise<TelemetryEvents['prune.finished']>((resolve) =>
      telemetry.on('prune.finished', resolve),
    )
    const failed = new Promise<TelemetryEvents['prune.failed']>((resolve) =>
      telemetry.on('prune.failed', resolve),
    )
    const pruner = createPruner({
      ...{ db, schema: testSchema, telemetry, relayId: randomUUID(), processedDays: 7, intervalMs: 60_000 },
      ...options,
    })
    pruner.start()
    return { pruner, finished, failed }
  }

  it('sweeps at once, forgets relays that are long dead, and leaves the task to its next turn', async () => {
    await plant(database, weekOld, {})
    await database.query(
      `INSERT INTO "waybill".outbox_relays (relay_id, host, process_id, version, expires_at)
       VALUES (gen_random_uuid(), 'old', 1, '0', now() - interval '2 hours'), (gen_random_uuid(), 'new', 1, '0', now())`,
    )
    const { pruner, finished } = start()
    expect(await finished).toMatchObject({ deleted: 1 })
    await pruner.stop()
    expect(await left()).toEqual([2])
    expect(await database.rows('SELECT host FROM "waybill".outbox_relays')).toEqual([{ host: 'new' }])
    const [task] = await database.rows(
      `SELECT owner, finished_at IS NOT NULL AS done FROM "waybill".outbox_tasks WHERE name = 'prune'`,
    )
    expect(task).toEqual({ owner: null, done: true })
  })

  it('says so when it fails, and can be stopped', async () => {
    const { pruner, failed } = start({ archive: { table: 'missing' } })
    expect((await failed).error).toContain(database.sql('archive table "waybill"."missing" does not exist'))
    await pruner.stop()
  })
})
