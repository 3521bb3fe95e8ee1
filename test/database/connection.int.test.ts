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
