import pg from 'pg'
import { afterEach, beforeAll, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { pg as pgClient } from '../../src/clients/pg.ts'
import { type WaybillError, createOutbox } from '../../src/index.ts'
import { type TestDatabase, createTestDatabase } from '../support/postgres.ts'
import { testSchema } from '../support/target.ts'

let db: TestDatabase
const outbox = createOutbox({ client: pgClient(), schema: testSchema })
const event = (n: number | string = 1) => ({
  type: 'order.created' as const,
  aggregate: ['order', `o-${n}`] as const,
  payload: { n },
})

beforeAll(async () => {
  db = await createTestDatabase()
  await db.query('CREATE TABLE orders (id text PRIMARY KEY)')
})
afterEach(async () => {
  await db.query('ROLLBACK')
  await db.query('TRUNCATE "waybill".outbox_events, "waybill".publication_heads, orders')
})

const count = async () => Number((await db.rows('SELECT count(*) FROM "waybill".outbox_events'))[0]!.count)

/** A client that writes down what it is asked. */
function recording(client: pg.Client) {
  const statements: { sql: string; params: unknown[] }[] = []
  const handle = {
    query(sql: string, params: unknown[]) {
      statements.push({ sql, params })
      return client.query(sql, params)
    },
  }
  return { handle, statements }
}

describe('inside a transaction', () => {
  test('an event is stored with all its fields, and exists only when the transaction commits', async () => {
    await db.query('BEGIN')
    const written = await outbox.publish(db.client, {
      type: 'order.created',
      aggregate: ['order', 'a:/* 😀'],
      payload: { total: 1.5, note: 'ü' },
      headers: { tenant: 'acme' },
      operationId: 'request-1',
    })
    const other = await db.connect()
    expect((await other.query(db.sql('SELECT FROM "waybill".outbox_events'))).rowCount).toBe(0)
    await db.query('COMMIT')
    const [row] = await db.rows('SELECT *, payload::text AS body FROM "waybill".outbox_events')
    expect(row).toMatchObject({
      id: written.id,
      aggregate_type: 'order',
      aggregate_id: 'a:/* 😀',
      event_type: 'order.created',
      body: '{"note": "ü", "total": 1.5}',
      headers: { tenant: 'acme' },
      operation_id: 'request-1',
      revision: null,
      intent_scope: '',
      attempts: 0,
      processed_at: null,
    })
    expect(written.written).toBe(true)
  })

  test('a rollback leaves nothing', async () => {
    await db.query('BEGIN')
    await outbox.publish(db.client, event())
    await db.query('ROLLBACK')
    expect(await count()).toBe(0)
  })

  test('many events go in one statement, in the order of the call', async () => {
    const { handle, statements } = recording(db.client)
    await db.query('BEGIN')
    await db.query("INSERT INTO orders VALUES ('1')")
    const written = await outbox.publish(
      handle,
      Array.from({ length: 250 }, (_, n) => event(n)),
    )
    await db.query('COMMIT')
    expect(statements).toHaveLength(1)
    expect(statements[0]!.params).toEqual([expect.any(String)])
    const rows = await db.rows('SELECT id, payload FROM "waybill".outbox_events ORDER BY position')
    expect(rows.map((row) => row.payload.n)).toEqual(Array.from({ length: 250 }, (_, n) => n))
    expect(rows.map((row) => row.id)).toEqual(written.map(({ id }) => id))
  })

  test('as its first statement it costs two more round trips, once', async () => {
    const { handle, statements } = recording(db.client)
    await db.query('BEGIN')
    await outbox.publish(handle, event(1))
    expect(statements).toHaveLength(3)
    await outbox.publish(handle, event(2))
    expect(statements).toHaveLength(4)
    await db.query('COMMIT')
    expect(await count()).toBe(2)
  })

  test('no events are no statement', async () => {
    const { handle, statements } = recording(db.client)
    expect(await outbox.publish(handle, [])).toEqual([])
    expect(statements).toEqual([])
  })

  test.each([
    ['null', null],
    ['false', false],
    ['a text', 'a "quoted" $1 ? text'],
    ['a number', 1e21],
    ['an empty object', {}],
    ['a list', [1, 'a', null]],
    ['1 MB', { text: 'ü'.repeat(500_000) }],
    ['a depth of 1000', JSON.parse(`${'[{"a":'.repeat(499)}[{}]${'}]'.repeat(499)}`) as unknown],
    ['SQL', { $1: "'; DROP TABLE outbox_events; --", '?': '\\' }],
  ])('a payload that is %s comes back equal', async (_, payload) => {
    await db.query('BEGIN')
    await outbox.publish(db.client, { ...event(), payload })
    await db.query('COMMIT')
    const [row] = await db.rows<{ body: string }>('SELECT payload::text AS body FROM "waybill".outbox_events')
    expect(JSON.parse(row!.body)).toEqual(payload)
  })

  test('what the schema of the catalogue returns is what is stored', async () => {
    const typed = createOutbox({
      client: pgClient(),
      schema: testSchema,
      events: { 'user.renamed': z.object({ name: z.string().trim(), at: z.date() }) },
    })
    await db.query('BEGIN')
    await typed.publish(db.client, {
      type: 'user.renamed',
      aggregate: ['user', 1],
      payload: { name: ' Ada ', at: new Date(0) },
    })
    await db.query('COMMIT')
    const [row] = await db.rows('SELECT payload FROM "waybill".outbox_events')
    expect(row!.payload).toEqual({ name: 'Ada', at: '1970-01-01T00:00:00.000Z' })
  })

  test('400 tries in autocommit write nothing; 600 inside, also in savepoints and as first statement, write 600', async () => {
    const codes: string[] = []
    for (let n = 0; n < 400; n++) {
      const tried = { ...event(n), ...(n % 4 ? {} : { revision: n }) }
      const outcome = n % 2 ? outbox.publish(db.client, [tried, event(n)]) : outbox.publish(db.client, tried)
      codes.push(
        await outcome.then(
          () => 'written',
          (error: WaybillError) => error.code,
        ),
      )
    }
    expect(codes).toHaveLength(400)
    expect(new Set(codes)).toEqual(new Set(['NOT_IN_TRANSACTION']))
    expect(await count()).toBe(0)
    expect(await db.rows('SELECT FROM "waybill".publication_heads')).toEqual([])

    for (let n = 0; n < 600; n++) {
      await db.query('BEGIN')
      if (n % 3 === 1) await db.query('INSERT INTO orders VALUES ($1)', [`${n}`])
      if (n % 3 === 2) await db.query('SAVEPOINT s')
      await outbox.publish(db.client, { ...event(n), ...(n % 4 ? {} : { revision: n }) })
      if (n % 6 === 2) await db.query('RELEASE SAVEPOINT s')
      await db.query('COMMIT')
    }
    expect(await count()).toBe(600)
  })

  test('what a savepoint takes back is not there, and the rest is', async () => {
    await db.query('BEGIN')
    await outbox.publish(db.client, event('before'))
    await db.query('SAVEPOINT s')
    await outbox.publish(db.client, event('inside'))
    await db.query('ROLLBACK TO SAVEPOINT s')
    await outbox.publish(db.client, event('after'))
    await db.query('COMMIT')
    const rows = await db.rows('SELECT payload FROM "waybill".outbox_events ORDER BY position')
    expect(rows.map((row) => row.payload.n)).toEqual(['before', 'after'])
  })

  test.each(['READ COMMITTED', 'REPEATABLE READ', 'SERIALIZABLE'])('works in %s', async (level) => {
    await db.query(`BEGIN ISOLATION LEVEL ${level}`)
    await outbox.publish(db.client, [event(1), { ...event(2), revision: 1n }])
    await db.query('COMMIT')
    expect(await count()).toBe(2)
  })
})

describe('an event that is refused', () => {
  const typed = createOutbox({
    client: pgClient(),
    schema: testSchema,
    events: { 'order.created': z.object({ n: z.number() }) },
  })

  test.each<[code: string, changes: object]>([
    ['EVENT_TYPE_UNKNOWN', { type: 'order.creatd' }],
    ['PAYLOAD_INVALID', { payload: { n: 'one' } }],
    ['EVENT_INVALID', { aggregate: ['order', ''] }],
    ['EVENT_INVALID', { revision: -1 }],
  ])('sends no SQL and leaves the transaction usable: %s', async (code, changes) => {
    const { handle, statements } = recording(db.client)
    await db.query('BEGIN')
    await expect(
      typed.publish(handle, [{ ...event(1), payload: { n: 1 } }, { ...event(2), ...changes } as never]),
    ).rejects.toMatchObject({ code, message: expect.stringMatching(/^events\[1\]\./) })
    expect(statements).toEqual([])
    await typed.publish(handle, { ...event(3), payload: { n: 3 } })
    await db.query('COMMIT')
    expect(await count()).toBe(1)
  })
})

describe('a handle that is not inside a transaction', () => {
  test('is a Pool', async () => {
    const pool = new pg.Pool({ connectionString: db.url })
    await expect(outbox.publish(pool as never, event())).rejects.toThrow(
      expect.objectContaining({
        code: 'NOT_IN_TRANSACTION',
        message:
          'publish needs a pg client that is inside a transaction, got a pg Pool, which may run each statement on another connection: use a client of pool.connect()',
      }),
    )
    expect(pool.totalCount).toBe(0)
    await pool.end()
  })

  test.each([[undefined], [null], ['postgres://'], [{}], [() => undefined]])('is %j', async (handle) => {
    await expect(outbox.publish(handle as never, event())).rejects.toThrow(
      expect.objectContaining({
        code: 'NOT_IN_TRANSACTION',
        message: expect.stringMatching(
          /^publish needs a pg client that is inside a transaction, got something/,
        ),
      }),
    )
  })

  test('is one whose transaction has ended', async () => {
    for (const end of ['COMMIT', 'ROLLBACK']) {
      await db.query('BEGIN')
      await outbox.publish(db.client, event())
      await db.query(end)
      await expect(outbox.publish(db.client, event(2))).rejects.toMatchObject({ code: 'NOT_IN_TRANSACTION' })
    }
    expect(await count()).toBe(1)
  })

  test('is one whose session was killed in the middle', async () => {
    const client = await db.connect()
    await client.query('BEGIN')
    await client.query("INSERT INTO orders VALUES ('lost')")
    await outbox.publish(client, event())
    const [row] = (await client.query<{ pid: number }>('SELECT pg_backend_pid() AS pid')).rows
    const ended = new Promise((resolve) => client.once('end', resolve))
    await db.query('SELECT pg_terminate_backend($1)', [row!.pid])
    await ended
    await expect(outbox.publish(client, event())).rejects.toMatchObject({
      code: 'DATABASE_UNREACHABLE',
      message:
        'the session of this transaction is lost, and the transaction with it: repeat the whole transaction',
    })
    expect(await count()).toBe(0)
  })

  test('is one that connected again by itself and carries on in autocommit', async () => {
    let client = await db.connect()
    const handle = { query: (sql: string, params: unknown[]) => client.query(sql, params) }
    await client.query('BEGIN')
    await outbox.publish(handle, event())
    await client.end()
    client = await db.connect()
    for (const lost of [event(), [event(), event(2)], { ...event(), revision: 1 }]) {
      await expect(outbox.publish(handle, lost as never)).rejects.toMatchObject({
        code: 'NOT_IN_TRANSACTION',
        message: expect.stringContaining('its session was lost'),
      })
    }
    expect(await count()).toBe(0)
  })
})

describe('a transaction in which a statement failed', () => {
  test('is told from one that never began', async () => {
    await db.query('BEGIN')
    await expect(db.query('SELECT 1/0')).rejects.toThrow('division by zero')
    for (const serialise of [false, true]) {
      await expect(outbox.publish(db.client, event(), { serialise })).rejects.toMatchObject({
        code: 'TRANSACTION_FAILED',
        message: expect.stringMatching(/^an earlier statement of this transaction failed/),
      })
    }
    await db.query('ROLLBACK')
    expect(await count()).toBe(0)
  })
})
