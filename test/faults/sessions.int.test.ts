import { afterEach, beforeAll, describe, expect, test } from 'vitest'
import { type Connection, type ConnectionOptions, createConnection } from '../../src/database/connection.ts'
import { type TestDatabase, createTestDatabase } from '../support/postgres.ts'
import { type TcpProxy, createProxy } from '../support/proxy.ts'
import { eventually } from './kit.ts'

let database: TestDatabase
let proxy: TcpProxy
let proxied: string
const connections: Connection[] = []
beforeAll(async () => {
  database = await createTestDatabase({ migrated: false })
  const url = new URL(database.url)
  proxy = await createProxy(Number(url.port))
  url.port = String(proxy.port)
  proxied = url.href
})
afterEach(async () => {
  proxy.blackhole(false)
  await Promise.all(connections.splice(0).map((connection) => connection.close()))
})

function connect(options: Partial<ConnectionOptions> = {}): Connection {
  const connection = createConnection({ databaseUrl: database.url, schema: database.schema, ...options })
  connections.push(connection)
  return connection
}
const pidOf = async (connection: Connection) =>
  (await connection.query<{ pid: number }>('SELECT pg_backend_pid() AS pid')).rows[0]!.pid
const refusal = async (
  work: Promise<unknown>,
): Promise<{ code: string; message: string; afterMs: number }> => {
  const at = performance.now()
  return work.then(
    () => Promise.reject(new Error('it worked')),
    ({ code, message }: { code: string; message: string }) => ({
      ...{ code, message },
      afterMs: performance.now() - at,
    }),
  )
}

describe('a session', () => {
  test('that is dead without a word is given up after the limit, and replaced', async () => {
    const connection = connect({ databaseUrl: proxied, queryTimeoutMs: 300, applicationName: 'dead' })
    const first = await pidOf(connection)
    proxy.blackhole(true, 'dead')
    expect(await refusal(connection.query('SELECT 1'))).toMatchObject({ code: 'DATABASE_TIMEOUT' })
    expect(await pidOf(connection)).not.toBe(first)
  })

  test('that is made through a silent network is given up after the limit for connecting', async () => {
    proxy.blackhole()
    const connection = connect({ databaseUrl: proxied, connectTimeoutMs: 300 })
    const { code, afterMs } = await refusal(connection.query('SELECT 1'))
    expect(code).toBe('DATABASE_UNREACHABLE')
    expect(afterMs).toBeLessThan(2_000)
  })

  test('whose first statements are not answered is given up after the same limit', async () => {
    let sessions = 0
    const connection = connect({
      databaseUrl: proxied,
      connectTimeoutMs: 300,
      async onConnect({ client }) {
        if (sessions++ > 0) return
        proxy.blackhole()
        await client.query('SELECT 1')
      },
    })
    expect(await refusal(connection.query('SELECT 1'))).toMatchObject({ code: 'DATABASE_TIMEOUT' })
    proxy.blackhole(false)
    expect(await pidOf(connection)).toBeGreaterThan(0)
  })

  test('that is being made when it is closed does not hold up the close', async () => {
    proxy.blackhole()
    const connection = connect({ databaseUrl: proxied, connectTimeoutMs: 60_000 })
    const failed = refusal(connection.query('SELECT 1'))
    await eventually('it is connecting', async () => proxy.connections > 0)
    const at = performance.now()
    await connection.close()
    expect(performance.now() - at).toBeLessThan(1_000)
    expect((await failed).code).toBe('DATABASE_UNREACHABLE')
  })

  test('is more patient after each statement in a row that ran into the limit, until one works', async () => {
    const connection = connect({ queryTimeoutMs: 200, maxQueryTimeoutMs: 800 })
    const limits: number[] = []
    for (const _ of [1, 2, 3, 4]) {
      const { message } = await refusal(connection.query('SELECT pg_sleep(10)'))
      limits.push(Number(/within (\d+) ms/.exec(message)![1]))
    }
    expect(limits).toEqual([200, 400, 800, 800])
    await connection.query('SELECT pg_sleep(0.3)')
    expect((await refusal(connection.query('SELECT pg_sleep(10)'))).message).toContain('within 200 ms')
  })

  test('that was given up while it waited for a lock leaves no process behind on the server', async () => {
    const blocker = await database.connect()
    await blocker.query('CREATE TABLE locked ()')
    await blocker.query('BEGIN; LOCK TABLE locked')
    const connection = connect({ queryTimeoutMs: 200, applicationName: 'waiting' })
    const waiting = async () => {
      const [row] = await database.rows(
        `SELECT count(*)::int AS n FROM pg_stat_activity WHERE application_name = 'waiting'`,
      )
      return row!['n'] as number
    }
    for (const _ of [1, 2, 3]) {
      expect((await refusal(connection.query('SELECT FROM locked'))).code).toBe('DATABASE_TIMEOUT')
    }
    expect(await waiting()).toBeGreaterThan(0)
    await eventually('they have ended', async () => (await waiting()) === 0, 8_000)
    await blocker.query('ROLLBACK')
  })

  test('with a server that becomes read-only is left at the next statement, though it only reads', async () => {
    const reading = connect()
    const writing = connect({ writable: true })
    const before = [await pidOf(reading), await pidOf(writing)]
    await database.query(`ALTER DATABASE ${database.name} SET default_transaction_read_only = on`)
    // Of a running session only a reload changes this; the same message comes from a SET.
    await writing.query('SELECT 1')
    const answer = await refusal(writing.query('SET default_transaction_read_only = on'))
    expect(answer).toMatchObject({
      code: 'DATABASE_UNREACHABLE',
      message: expect.stringContaining('default_transaction_read_only is on'),
    })
    expect((await refusal(writing.query('SELECT 1'))).message).toContain('a primary is needed')
    await database.query(`ALTER DATABASE ${database.name} RESET default_transaction_read_only`)
    expect(await pidOf(writing)).not.toBe(before[1])
    expect(await pidOf(reading)).toBe(before[0])
  })
})
