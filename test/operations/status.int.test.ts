import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { type Connection, createConnection } from '../../src/database/connection.ts'
import { formatCount, readSample, takeSample } from '../../src/operations/sample.ts'
import { createSampler } from '../../src/operations/sampler.ts'
import { readStatus } from '../../src/operations/status.ts'
import { type TelemetryEvents, createTelemetry } from '../../src/telemetry/events.ts'
import { type TestDatabase, createTestDatabase } from '../support/postgres.ts'
import { testSchema } from '../support/target.ts'
import { dead, discarded, failing, plant, plantPublished, published } from './plant.ts'

let database: TestDatabase
let db: Connection

beforeAll(async () => {
  database = await createTestDatabase()
  db = createConnection({ databaseUrl: database.url, schema: testSchema })
})
afterAll(() => db.close())
beforeEach(async () => {
  await database.query('TRUNCATE "waybill".outbox_events, "waybill".outbox_relays RESTART IDENTITY')
  await database.query(
    'UPDATE "waybill".outbox_tasks SET owner = NULL, leased_until = NULL, finished_at = NULL, result = NULL',
  )
  await database.query('UPDATE "waybill".outbox_buckets SET owner = NULL, leased_until = NULL')
})

/** A relay as it registers itself, with its buckets. */
async function plantRelay(
  info: object,
  buckets: string,
  expires = "now() + interval '1 minute'",
): Promise<string> {
  const id = randomUUID()
  await database.query(
    `INSERT INTO "waybill".outbox_relays (relay_id, host, process_id, version, expires_at, info)
     VALUES ($1, 'box', 42, '0.1.0', ${expires}, $2)`,
    [id, JSON.stringify(info)],
  )
  await database.query(
    `UPDATE "waybill".outbox_buckets SET owner = $1, leased_until = ${expires} WHERE bucket ${buckets}`,
    [id],
  )
  return id
}

const storeSample = (sample: object, age: string) =>
  database.query(
    `UPDATE "waybill".outbox_tasks SET result = $1, finished_at = clock_timestamp() - $2::interval WHERE name = 'sample'`,
    [JSON.stringify(sample), age],
  )

describe('takeSample', () => {
  it('counts every state and every aggregate in trouble', async () => {
    await plantPublished(database, 10)
    await plant(
      database,
      // Retried, and two behind it, of which one failed itself.
      { ...failing, aggregate: ['a', '1'], createdAt: "now() - interval '2 minutes'" },
      { aggregate: ['a', '1'] },
      { ...failing, aggregate: ['a', '1'] },
      // A dead letter that holds, one behind it.
      { ...dead, holds: true, aggregate: ['a', '2'] },
      { aggregate: ['a', '2'] },
      // One that does not hold; one that was given up.
      { ...dead, aggregate: ['a', '3'] },
      { ...discarded, aggregate: ['a', '3'] },
      { aggregate: ['a', '3'] },
      { ...published, aggregate: ['a', '4'] },
      { aggregate: ['a', '5'] },
    )
    const sample = await takeSample(db, testSchema)
    expect(sample).toEqual({
      sampledAt: expect.stringMatching(/^\d{4}-\d{2}-\d{2}T[\d:.]+Z$/),
      counts: { pending: 2, retrying: 1, blocked: 3, dead: 2 },
      blockedAggregates: 2,
      oldestPendingAgeSeconds: expect.any(Number),
    })
    expect(sample.oldestPendingAgeSeconds).toBeGreaterThanOrEqual(120)
    expect(sample.oldestPendingAgeSeconds).toBeLessThan(180)
  })

  it('has no age and only zeros when nothing is pending', async () => {
    await plant(database, published, discarded)
    expect(await takeSample(db, testSchema)).toMatchObject({
      counts: { pending: 0, retrying: 0, blocked: 0, dead: 0 },
      blockedAggregates: 0,
      oldestPendingAgeSeconds: null,
    })
  })

  it('stops counting each state at the limit', async () => {
    for (let i = 0; i < 4; i++)
      await plant(database, failing, { ...dead, aggregate: ['d', `${i}`] }, { aggregate: ['p', `${i}`] })
    // One retried, three behind it; four pending; four dead.
    const at = async (limit: number) => (await takeSample(db, testSchema, limit)).counts
    expect(await at(10)).toEqual({ pending: 4, retrying: 1, blocked: 3, dead: 4 })
    expect(await at(3)).toMatchObject({ pending: 3, dead: 3 })
  })

  it('reads none of what was published', async () => {
    await plantPublished(database, 20_000)
    for (let i = 0; i < 30; i++)
      await plant(database, { aggregate: ['p', `${i}`] }, { ...failing, aggregate: ['f', `${i}`] })
    await database.query('VACUUM ANALYZE "waybill".outbox_events')
    const statements: { text: string; values: readonly unknown[] }[] = []
    const spying: Connection = {
      ...db,
      query: (text, values = [], ...rest) => {
        statements.push({ text, values })
        return db.query(text, values, ...rest)
      },
    }
    await takeSample(spying, testSchema)
    expect(statements.length).toBeGreaterThanOrEqual(4)
    for (const { text, values } of statements) {
      const rows = await database.rows(`EXPLAIN (ANALYZE, FORMAT JSON) ${text}`, [...values])
      const plan = JSON.stringify(rows[0]!['QUERY PLAN'])
      expect(plan).not.toMatch(/"Node Type":"Seq Scan"[^}]*"Relation Name":"outbox_events"/)
      const most = Math.max(...[...plan.matchAll(/"Actual Rows":([\d.]+)/g)].map(([, rows]) => Number(rows)))
      expect(most).toBeLessThan(100)
    }
  })
})

it('prints a count that stopped with a plus', () => {
  expect(formatCount(999_999)).toBe('999999')
  expect(formatCount(1_000_000)).toBe('1000000+')
})

describe('the sampler', () => {
  const samplerOf = (intervalMs = 60_000) => {
    const telemetry = createTelemetry()
    const next = <Name extends 'sample.taken' | 'sample.failed'>(name: Name) =>
      new Promise<TelemetryEvents[Name]>((resolve) => telemetry.on(name, resolve))
    const sampler = createSampler({ db, schema: testSchema, telemetry, relayId: randomUUID(), intervalMs })
    return { sampler, next }
  }

  it('counts for all: the first takes the sample, the second reads it', async () => {
    await plant(database, dead)
    const first = samplerOf()
    expect(first.sampler.latest()).toBeNull()
    const taken = first.next('sample.taken')
    first.sampler.start()
    expect(await taken).toMatchObject({ counts: { dead: 1 }, durationMs: expect.any(Number) })
    await plant(database, dead)
    const second = samplerOf()
    second.sampler.start()
    await expect.poll(() => second.sampler.latest()?.sample.counts.dead).toBe(1)
    expect(second.sampler.latest()!.ageSeconds).toBeGreaterThan(0)
    await first.sampler.stop()
    await second.sampler.stop()
    expect(await readSample(db, testSchema)).toEqual({
      sample: first.sampler.latest()!.sample,
      ...{ consumers: [], consumerMarks: {} },
      ageSeconds: expect.any(Number),
      durationMs: expect.any(Number),
    })
  })

  it('goes on counting, in turns', async () => {
    const { sampler, next } = samplerOf(20)
    sampler.start()
    await next('sample.taken')
    await plant(database, dead)
    // A machine that is slow to count counts less often.
    await expect.poll(() => sampler.latest()?.sample.counts.dead, { timeout: 20_000 }).toBe(1)
    await sampler.stop()
  })

  it('tells once that it fails, and its last sample grows old', async () => {
    await storeSample({ counts: { dead: 7 }, durationMs: 1 }, '1 second')
    const telemetry = createTelemetry()
    let failures = 0
    let attempts = 0
    telemetry.on('sample.failed', () => failures++)
    const broken: Connection = {
      ...db,
      query: (text, ...rest) => {
        if (++attempts > 2) return Promise.reject(new Error('away'))
        return db.query(text, ...rest)
      },
    }
    const sampler = createSampler({
      db: broken,
      schema: testSchema,
      telemetry,
      relayId: randomUUID(),
      intervalMs: 20,
    })
    await database.query(
      `UPDATE "waybill".outbox_tasks SET owner = gen_random_uuid(), leased_until = now() + interval '1 hour'`,
    )
    sampler.start()
    await expect.poll(() => attempts).toBeGreaterThan(5)
    await sampler.stop()
    expect(failures).toBe(1)
    expect(sampler.latest()).toMatchObject({ sample: { counts: { dead: 7 } } })
    expect(sampler.latest()!.ageSeconds).toBeGreaterThan(1)
  })
})

describe('readStatus', () => {
  const stored = {
    counts: { pending: 5, retrying: 0, blocked: 0, dead: 9 },
    blockedAggregates: 0,
    durationMs: 1,
  }

  it('counts by itself when there is no sample', async () => {
    await plant(database, dead, {})
    expect(await readStatus(db, testSchema)).toMatchObject({
      counts: { pending: 1, dead: 1 },
      sampleAgeSeconds: 0,
      countLimit: 1_000_000,
      relays: [],
      bucketCount: 64,
      unownedBuckets: Array.from({ length: 64 }, (_, i) => i),
      wakeup: null,
      destinations: {},
    })
  })

  it('stops counting where it is told to, and says so', async () => {
    await plant(database, dead, dead, dead, {})
    expect(await readStatus(db, testSchema, 2)).toMatchObject({
      counts: { pending: 1, dead: 2 },
      countLimit: 2,
    })
  })

  it('trusts a sample while a relay lives that will renew it, and then tells its age', async () => {
    await plantRelay({}, '< 8')
    await storeSample(stored, '40 seconds')
    const status = await readStatus(db, testSchema)
    expect(status.counts.dead).toBe(9)
    expect(status.sampleAgeSeconds).toBeGreaterThanOrEqual(40)
  })

  it('counts by itself once no relay lives, however young the sample of the last one is', async () => {
    await plantRelay({}, '< 8', "now() - interval '1 second'")
    await plant(database, {})
    await storeSample(
      { ...stored, counts: { pending: 0, retrying: 0, blocked: 0, dead: 9 }, oldestPendingAgeSeconds: null },
      '1 second',
    )
    const status = await readStatus(db, testSchema)
    expect(status).toMatchObject({ counts: { pending: 1, dead: 0 }, sampleAgeSeconds: 0, relays: [] })
    expect(status.oldestPendingAgeSeconds).not.toBeNull()
  })

  it('shows live relays, their buckets, and what nobody owns', async () => {
    await plantRelay({}, '>= 60', "now() - interval '1 second'")
    const one = await plantRelay({ wakeup: 'notify' }, '< 2')
    const two = await plantRelay({ wakeup: 'notify' }, 'BETWEEN 2 AND 50')
    const status = await readStatus(db, testSchema)
    expect(status.relays.map(({ id, buckets }) => [id, buckets.length]).toSorted()).toEqual(
      [
        [one, 2],
        [two, 49],
      ].toSorted(),
    )
    expect(status.relays[0]).toMatchObject({ host: 'box', processId: 42, version: '0.1.0', asleep: false })
    expect(status.unownedBuckets).toEqual([51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63])
    expect(status.wakeup).toBe('notify')
  })

  it('is as sceptical of a destination as the most sceptical relay', async () => {
    const at = '2026-03-01T10:00:00Z'
    await plantRelay(
      {
        wakeup: 'notify',
        destinations: {
          bus: { state: 'up', since: at, error: null },
          hook: { state: 'unknown', since: at, error: null },
        },
      },
      '< 32',
    )
    await plantRelay(
      {
        wakeup: 'pooled',
        destinations: { bus: { state: 'down', since: at, error: 'refused' }, hook: { state: 'up' } },
      },
      '>= 32',
    )
    const status = await readStatus(db, testSchema)
    expect(status.destinations).toEqual({
      bus: { state: 'down', since: at, error: 'refused' },
      hook: { state: 'up', since: null, error: null },
    })
    expect(status.wakeup).toBe('mixed')
  })

  it.each([{}, { destinations: 7, wakeup: 'telepathy' }, { destinations: { a: 'x' } }, []])(
    'does not stumble over the info %j of another version',
    async (info) => {
      await plantRelay(info, '< 1')
      const status = await readStatus(db, testSchema)
      expect(status.wakeup).toBeNull()
      expect(Object.values(status.destinations).every(({ state }) => state === 'unknown')).toBe(true)
    },
  )
})
