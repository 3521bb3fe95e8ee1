import { setTimeout as delay } from 'node:timers/promises'
import { beforeEach, describe, expect, test } from 'vitest'
import { aborted, createSharedAbort } from '../../src/pause.ts'
import type { Publisher } from '../../src/publishing/publisher.ts'
import { type TestDatabase, createTestDatabase } from '../support/postgres.ts'
import { nodeWarnings } from '../support/warnings.ts'
import { insertEvents, numbers, readEvents, testRelay, untilAsleep, upTo } from './harness.ts'
import { recordingPublisher } from './recording-publisher.ts'

let database: TestDatabase
beforeEach(async () => {
  database = await createTestDatabase()
})

describe('delivery', () => {
  test.for(['per-call', 'batch'] as const)(
    'publishes every event once, in order for each aggregate, and marks it with its receipt (%s)',
    async (ordering) => {
      const events = upTo(100).flatMap((n) =>
        ['x', 'y', 'z'].map((aggregate) => ({ aggregate, payload: { n } })),
      )
      await insertEvents(database, events)
      const publisher = recordingPublisher({
        ordering,
        behave: async (message) => {
          await delay(Math.random() * 2)
          return { status: 'published', receipt: `test:${message.aggregateId}` }
        },
      })
      const report = await testRelay(database, { destinations: { publisher } }).drain()
      expect(report).toEqual({ published: 300, failed: 0, dead: 0, stuck: 0 })
      for (const aggregate of ['x', 'y', 'z']) expect(numbers(publisher.bodies(aggregate))).toEqual(upTo(100))
      const rows = await readEvents(database)
      expect(rows.every((row) => row.published && row.attempts === 0)).toBe(true)
      expect(rows.map((row) => row.receipt)).toEqual(events.map(({ aggregate }) => `test:${aggregate}`))
    },
  )

  test("with settle 'delete' removes what is published, and nothing else", async () => {
    const ids = await insertEvents(
      database,
      upTo(50).map((n) => ({ aggregate: `a-${n % 5}`, payload: { n } })),
    )
    const [intent] = await database.rows<{ id: string }>(
      `INSERT INTO "waybill".outbox_events (aggregate_type, aggregate_id, event_type, payload, revision)
       VALUES ('note', 'n-42', 'note.published', '{}', 7) RETURNING id`,
    )
    const [refused, retried] = [ids[10]!, ids[20]!]
    let tries = 0
    const publisher = recordingPublisher({
      behave: ({ eventId }) => {
        if (eventId === refused) return { status: 'reject', error: new Error('never') }
        if (eventId === retried && tries++ === 0) return { status: 'retry', error: new Error('later') }
        return { status: 'published', receipt: 'taken' }
      },
    })
    const relay = testRelay(database, { destinations: { publisher }, settle: 'delete' })
    await relay.start()
    await publisher.untilDelivered(50)
    await relay.until('event.dead')
    await relay.stop()
    expect(relay.events('event.failed').map(({ eventId }) => eventId)).toEqual([retried])
    expect(await readEvents(database)).toEqual([
      expect.objectContaining({ id: refused, published: false, dead: true }),
      expect.objectContaining({ id: intent!.id, published: true, receipt: 'taken' }),
    ])
  })

  test("with settle 'delete' removes nothing of a bucket that another relay owns by now", async () => {
    await insertEvents(database, [{ aggregate: 'x' }])
    const publisher = recordingPublisher({
      behave: async () => {
        await database.query(
          `UPDATE "waybill".outbox_buckets SET owner = gen_random_uuid(), epoch = epoch + 1,
             leased_until = clock_timestamp() + interval '1 hour'`,
        )
        return { status: 'published' }
      },
    })
    const relay = testRelay(database, { destinations: { publisher }, settle: 'delete' })
    await relay.start()
    await relay.until('relay.lease_lost')
    expect(await readEvents(database)).toEqual([expect.objectContaining({ published: false, dead: false })])
  })

  test('never has two events of one aggregate under way at once, and many aggregates at once', async () => {
    await insertEvents(
      database,
      upTo(20).flatMap((n) => upTo(10).map((a) => ({ aggregate: `a-${a}`, payload: { n } }))),
    )
    const underWay = new Set<string>()
    let together = 0
    let most = 0
    const publisher = recordingPublisher({
      behave: async ({ aggregateId }) => {
        if (underWay.has(aggregateId)) together++
        underWay.add(aggregateId)
        most = Math.max(most, underWay.size)
        await delay(1)
        underWay.delete(aggregateId)
        return { status: 'published' }
      },
    })
    await testRelay(database, { destinations: { publisher }, workers: 4, batchSize: 5 }).drain()
    expect(publisher.delivered).toHaveLength(200)
    expect(together).toBe(0)
    expect(most).toBeGreaterThan(4)
  })

  test('hands the payload over as PostgreSQL wrote it, byte for byte', async () => {
    const payloads = [
      '9007199254740993',
      '1.10',
      '{}',
      '{"a": 1e400}',
      `"${'ü'.repeat(500_000)}"`,
      '['.repeat(500) + ']'.repeat(500),
    ]
    for (const [i, payload] of payloads.entries()) {
      await database.query(
        `INSERT INTO "waybill".outbox_events (aggregate_type, aggregate_id, event_type, payload)
         VALUES ('order', $1, 'order.created', $2::text::jsonb)`,
        [`a-${i}`, payload],
      )
    }
    const publisher = recordingPublisher()
    await testRelay(database, { destinations: { publisher } }).drain()
    const rows = await database.rows<{ aggregate_id: string; text: string }>(
      'SELECT aggregate_id, payload::text AS text FROM "waybill".outbox_events',
    )
    expect(rows).toHaveLength(payloads.length)
    for (const { aggregate_id: id, text } of rows) expect(publisher.bodies(id)).toEqual([text])
    expect(publisher.bodies('a-0')).toEqual(['9007199254740993'])
    expect(publisher.bodies('a-1')).toEqual(['1.10'])
  })

  test('keeps memory bounded with payloads of a megabyte', async () => {
    await database.query(
      `INSERT INTO "waybill".outbox_events (aggregate_type, aggregate_id, event_type, payload)
       SELECT 'order', 'a-' || i % 7, 'order.created',
              jsonb_build_object('n', i, 'body', (SELECT string_agg(md5(i::text || j), '') FROM generate_series(1, 32768) j))
       FROM generate_series(1, 80) i`,
    )
    const counted: number[] = []
    const publisher: Publisher = {
      name: 'counting',
      capabilities: { ordering: 'per-call', deduplication: false },
      publish(messages) {
        counted.push(...messages.map((message) => message.body.length))
        return Promise.resolve(messages.map(() => ({ status: 'published' })))
      },
      close: () => Promise.resolve(),
    }
    const before = process.memoryUsage().heapUsed
    let most = 0
    const watch = setInterval(() => (most = Math.max(most, process.memoryUsage().heapUsed)), 5)
    const relay = testRelay(database, { destinations: { publisher }, batchSize: 1000 })
    await relay.drain()
    clearInterval(watch)
    expect(counted).toHaveLength(80)
    expect(Math.min(...counted)).toBeGreaterThan(1_000_000)
    // 80 MB of payload went through; the window holds 48 MB at the most, a read brings 16.
    expect(most - before).toBeLessThan(78 * 1024 * 1024)
  })

  test('delivers an event whose lower position commits later, and never waits for it', async () => {
    const [late, other] = await Promise.all([database.connect(), database.connect()])
    await late.query('BEGIN')
    const insert = database.sql(
      `INSERT INTO "waybill".outbox_events (aggregate_type, aggregate_id, event_type, payload)
       VALUES ('order', $1, 'order.created', $2) RETURNING position`,
    )
    const low = await late.query(insert, ['late', { n: 1 }])
    const high = await other.query(insert, ['early', { n: 1 }])
    expect(BigInt(low.rows[0].position)).toBeLessThan(BigInt(high.rows[0].position))
    const publisher = recordingPublisher()
    const relay = testRelay(database, { destinations: { publisher } })
    await relay.start()
    await publisher.untilDelivered(1)
    expect(publisher.bodies('early')).toHaveLength(1)
    // Many more above it, so that the relay has read past the open position for sure.
    await insertEvents(
      database,
      upTo(50).map((n) => ({ aggregate: `more-${n}` })),
    )
    await publisher.untilDelivered(51)
    await late.query('COMMIT')
    await publisher.untilDelivered(52)
    expect(publisher.bodies('late')).toHaveLength(1)
    await relay.stop()
  })

  test('does not wait for a transaction that writes in another database', async () => {
    const elsewhere = await createTestDatabase({ migrated: false })
    await elsewhere.query('CREATE TABLE t (n int)')
    await elsewhere.query('BEGIN')
    await elsewhere.query('INSERT INTO t VALUES (1)')
    expect(await elsewhere.rows('SELECT pg_current_xact_id_if_assigned() IS NOT NULL AS writing')).toEqual([
      { writing: true },
    ])
    await insertEvents(
      database,
      upTo(10).map((n) => ({ payload: { n } })),
    )
    const publisher = recordingPublisher()
    expect(await testRelay(database, { destinations: { publisher } }).drain()).toMatchObject({
      published: 10,
    })
    await elsewhere.query('ROLLBACK')
  })

  test('wakes by notification when it sleeps, long before any poll', async () => {
    const publisher = recordingPublisher()
    const relay = testRelay(database, { destinations: { publisher }, pollIntervalMs: 60_000 })
    await relay.start()
    await relay.until('listener.up')
    await untilAsleep(database)
    await insertEvents(database, [{ payload: { n: 1 } }])
    await publisher.untilDelivered(1)
    expect(relay.events('relay.wakeup').some(({ source }) => source === 'notify')).toBe(true)
    await relay.stop()
  })

  test('with wakeup: poll it polls and never says that it sleeps', async () => {
    const publisher = recordingPublisher()
    const relay = testRelay(database, { destinations: { publisher }, wakeup: 'poll', pollIntervalMs: 20 })
    await relay.start()
    await relay.until('relay.wakeup', (_, all) => all.length > 20)
    await insertEvents(database, [{ payload: { n: 1 } }])
    await publisher.untilDelivered(1)
    expect(relay.events('relay.wakeup').some(({ source }) => source === 'notify')).toBe(false)
    expect(
      await database.rows(
        'SELECT count(*)::int AS n FROM "waybill".outbox_relays WHERE asleep_until IS NOT NULL',
      ),
    ).toEqual([{ n: 0 }])
    await relay.stop()
  })

  test('works in a schema with any name', async () => {
    const odd = await createTestDatabase({ schema: 'My"Schema' })
    await insertEvents(odd, [{ payload: { n: 1 } }])
    const publisher = recordingPublisher()
    const relay = testRelay(odd, { destinations: { publisher } })
    await relay.start()
    await publisher.untilDelivered(1)
    await relay.until('listener.up')
    await untilAsleep(odd)
    await insertEvents(odd, [{ payload: { n: 2 } }])
    await publisher.untilDelivered(2)
    expect(relay.events('relay.wakeup').some(({ source }) => source === 'notify')).toBe(true)
    await relay.stop()
  })

  test('makes as many calls at once as it has workers, and Node takes them for no leak', async () => {
    const warnings = nodeWarnings()
    await insertEvents(
      database,
      upTo(16).map((i) => ({ aggregate: `a-${i}` })),
    )
    const answer = createSharedAbort()
    const publisher = recordingPublisher({ onCall: () => aborted(answer.signal) })
    const relay = testRelay(database, { destinations: { publisher }, workers: 16, batchSize: 1 })
    await relay.start()
    await publisher.untilCalled(16)
    answer.abort()
    await publisher.untilDelivered(16)
    await relay.stop()
    expect(warnings).toEqual([])
  })

  // More than one read asks: eight rows of each, and 1 000 in one read.
  test('finds an end, and sleeps, with as many buckets as there may be', async () => {
    const many = await createTestDatabase({ buckets: 1024 })
    await insertEvents(
      many,
      upTo(2000).map((i) => ({ aggregate: `a-${i}` })),
    )
    const options = () => ({ destinations: { publisher: recordingPublisher() }, batchSize: 10 })
    expect(await testRelay(many, options()).drain()).toMatchObject({ published: 2000, stuck: 0 })
    const relay = testRelay(many, options())
    await relay.start()
    await relay.until('listener.up')
    await untilAsleep(many)
    await relay.stop()
  })

  test('tells the head of a publication that its revision is out', async () => {
    const { query, rows } = database
    await query('BEGIN')
    await query('CREATE TEMP TABLE t (n int) ON COMMIT DROP')
    await query(`SELECT "waybill".outbox_publish_intents($1::text::jsonb)`, [
      JSON.stringify(
        [1, 2].map((revision) => ({
          id: `00000000-0000-7000-8000-00000000000${revision}`,
          aggregate_type: 'note',
          aggregate_id: 'n-42',
          event_type: 'note.published',
          payload: { n: revision },
          headers: {},
          revision,
          intent_scope: '',
        })),
      ),
    ])
    await query('COMMIT')
    const publisher = recordingPublisher()
    expect(await testRelay(database, { destinations: { publisher } }).drain()).toMatchObject({ published: 2 })
    expect(
      await rows(
        `SELECT revision::int, relayed_revision::int, relayed_at IS NOT NULL AS relayed FROM "waybill".publication_heads`,
      ),
    ).toEqual([{ revision: 2, relayed_revision: 2, relayed: true }])
    expect(
      await rows(`SELECT intent_key, status FROM "waybill".publication_intents ORDER BY revision`),
    ).toEqual([
      { intent_key: 'n-42:1', status: 'relayed' },
      { intent_key: 'n-42:2', status: 'relayed' },
    ])
  })

  test('does not wait for a writer that holds the head of a publication', async () => {
    const writer = await database.connect()
    const intent = (revision: number) => [
      JSON.stringify([
        {
          id: `00000000-0000-7000-8000-00000000000${revision}`,
          aggregate_type: 'note',
          aggregate_id: 'n-42',
          event_type: 'note.published',
          payload: {},
          headers: {},
          revision,
          intent_scope: '',
        },
      ]),
    ]
    const publish = 'SELECT pg_current_xact_id(); '
    for (const revision of [1, 2]) {
      await writer.query('BEGIN')
      await writer.query(publish)
      await writer.query(
        database.sql('SELECT "waybill".outbox_publish_intents($1::text::jsonb)'),
        intent(revision),
      )
      if (revision === 1) await writer.query('COMMIT')
    }
    const publisher = recordingPublisher()
    expect(await testRelay(database, { destinations: { publisher } }).drain()).toMatchObject({ published: 1 })
    await writer.query('COMMIT')
    expect(
      await testRelay(database, { destinations: { publisher: recordingPublisher() } }).drain(),
    ).toMatchObject({ published: 1 })
  })
})
