import { afterEach, describe, expect, it } from 'vitest'
import { type Connection, type ConnectionOptions, createConnection } from '../../src/database/connection.ts'
import { createTestDatabase } from '../support/postgres.ts'

const database = await createTestDatabase({ migrated: false })
const connections: Connection[] = []
afterEach(() => Promise.all(connections.splice(0).map((connection) => connection.close())))

function connect(options: Partial<ConnectionOptions> = {}): Connection {
  const connection = createConnection({ databaseUrl: database.url, schema: database.schema, ...options })
  connections.push(connection)
  return connection
}

describe('several statements at once', () => {
  it('are asked in turn, and waiting for it does not count against the time limit', async () => {
    const connection = connect({ queryTimeoutMs: 1_500 })
    const answers: string[] = []
    const ask = (answer: string) =>
      connection
        .query<{ answer: string }>('SELECT $1 AS answer FROM pg_sleep(0.6)', [answer])
        .then(({ rows }) => answers.push(rows[0]!.answer))
    const started = performance.now()
    await Promise.all([ask('a'), ask('b'), ask('c')])
    expect(answers).toEqual(['a', 'b', 'c'])
    expect(performance.now() - started).toBeGreaterThan(1_500)
  })

  it('do not suffer from one that fails', async () => {
    const connection = connect()
    const results = await Promise.allSettled([
      connection.query('SELECT 1 / 0'),
      connection.query('SELECT 1 AS one'),
    ])
    expect(results).toMatchObject([
      { status: 'rejected', reason: { code: '22012' } },
      { status: 'fulfilled', value: { rows: [{ one: 1 }] } },
    ])
  })
})

it('statements are never compiled: that would take longer than they do, each time', async () => {
  const { rows } = await connect().query('SHOW jit')
  expect(rows).toEqual([{ jit: 'off' }])
})

describe('rows as text', () => {
  const text = { rowMode: 'text' } as const

  it('hold the columns as the server sent them', async () => {
    const connection = connect()
    for (const name of [undefined, 'prepared', 'prepared']) {
      const { rows, rowCount } = await connection.query(
        `SELECT n, n % 2 = 0, CASE WHEN n = 2 THEN NULL ELSE '{"a": 1}'::jsonb END, $1::text
         FROM generate_series(1, $2::int) AS n`,
        ['ä', 3],
        name === undefined ? text : { ...text, name },
      )
      expect(rows).toEqual([
        ['1', 'f', '{"a": 1}', 'ä'],
        ['2', 't', null, 'ä'],
        ['3', 'f', '{"a": 1}', 'ä'],
      ])
      expect(rowCount).toBe(3)
    }
  })

  it('come whole or not at all, and leave the session usable', async () => {
    const connection = connect()
    await expect(
      connection.query('SELECT 10 / (3 - n) FROM generate_series(1, 5) AS n', [], text),
    ).rejects.toMatchObject({ code: '22012' })
    expect((await connection.query('SELECT 1', [], text)).rows).toEqual([['1']])
  })

  it('are refused when the session ends under way', async () => {
    const connection = connect({ applicationName: 'as-text' })
    // Listened to from the beginning: it may be refused before the end of the session is told.
    const answer = connection.query('SELECT pg_sleep(60)', [], text).catch((error: unknown) => error)
    const end = () =>
      database.rows(
        `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
         WHERE application_name = 'as-text' AND query LIKE '%pg_sleep%'`,
      )
    await expect.poll(end, { timeout: 10_000 }).toHaveLength(1)
    expect(await answer).toMatchObject({ code: expect.stringMatching(/57P01|DATABASE_UNREACHABLE/) })
  })
})
