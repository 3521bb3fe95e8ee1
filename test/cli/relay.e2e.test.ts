import { createServer } from 'node:http'
import { type AddressInfo, createServer as createTcpServer } from 'node:net'
import { once } from 'node:events'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { atEndOfFile } from '../support/cleanups.ts'
import { type TestDatabase, createTestDatabase, startTestServer } from '../support/postgres.ts'
import { type TestProcess, startCli } from '../support/processes.ts'
import { asDefault, testSchema } from '../support/target.ts'
import { createCli, temporaryFolder } from './cli.ts'

interface Delivery {
  id: string
  body: string
}

/** An HTTP receiver on a free port; `answer` may be changed at any time. */
async function startReceiver(port = 0) {
  const deliveries: Delivery[] = []
  const waiting = new Set<() => void>()
  const receiver = {
    deliveries,
    answer: async (): Promise<number> => 204,
    url: '',
    port: 0,
    /** Resolves when so many deliveries have arrived. */
    async received(count: number): Promise<void> {
      while (deliveries.length < count) await new Promise<void>((resolve) => waiting.add(resolve))
    },
  }
  const server = createServer((request, response) => {
    let body = ''
    request.setEncoding('utf8').on('data', (chunk: string) => (body += chunk))
    request.on('end', () => {
      void receiver.answer().then((status) => {
        if (status < 300) deliveries.push({ id: String(request.headers['webhook-id']), body })
        response.writeHead(status).end()
        for (const wake of waiting) wake()
        waiting.clear()
      })
    })
  })
  server.listen(port, '127.0.0.1')
  await once(server, 'listening')
  receiver.port = (server.address() as AddressInfo).port
  receiver.url = `http://127.0.0.1:${receiver.port}/events`
  atEndOfFile(() => {
    server.closeAllConnections()
    server.close()
  })
  return receiver
}

async function insert(database: TestDatabase, payload: string, aggregate = 'o-1'): Promise<string> {
  const rows = await database.rows<{ id: string }>(
    `INSERT INTO "waybill".outbox_events (aggregate_type, aggregate_id, event_type, payload)
     VALUES ('order', $2, 'order.created', $1::text::jsonb) RETURNING id`,
    [payload, aggregate],
  )
  return rows[0]!.id
}

async function folderWith(config: unknown): Promise<string> {
  const cwd = await temporaryFolder()
  await writeFile(join(cwd, 'waybill.config.json'), JSON.stringify(config))
  return cwd
}

const hook = (url: string) => ({ destinations: { hook: { type: 'webhook', url } } })

function startRelay(
  cwd: string,
  database: Pick<TestDatabase, 'url' | 'schema'>,
  args: string[] = ['--port', '0'],
): TestProcess {
  return startCli(['relay', ...args], { cwd, database })
}

/** The base URL of the HTTP server of a relay, from its log. */
async function addressOf(relay: TestProcess): Promise<string> {
  return (await relay.line(/"url":"(http:[^"]+)"/))[1]!
}

async function readiness(address: string): Promise<{ status: number; text: string }> {
  const response = await fetch(`${address}/readyz`)
  return { status: response.status, text: await response.text() }
}

async function untilReady(address: string): Promise<void> {
  await expect.poll(async () => (await readiness(address)).status, { timeout: 20_000 }).toBe(200)
}

describe('the daemon', () => {
  test('delivers a row of plain SQL byte for byte, logs JSON lines and stops cleanly at SIGTERM', async () => {
    const database = await createTestDatabase()
    const receiver = await startReceiver()
    const relay = startRelay(await folderWith(hook(receiver.url)), database)
    const address = await addressOf(relay)
    expect(new URL(address).hostname).toBe('127.0.0.1')
    const payload = '{"n": 9007199254740993, "price": 1.10, "nested": {"a": [1, 2]}}'
    const id = await insert(database, payload)
    await receiver.received(1)
    const [{ text }] = (await database.rows('SELECT payload::text AS text FROM "waybill".outbox_events')) as [
      { text: string },
    ]
    expect(receiver.deliveries).toEqual([{ id, body: text }])

    await untilReady(address)
    expect((await fetch(`${address}/livez`)).status).toBe(200)
    const metrics = await (await fetch(`${address}/metrics`)).text()
    expect(metrics).toMatch(/^outbox_events_published_total 1$/m)

    relay.signal('SIGTERM')
    expect(await relay.exit).toEqual({ code: 0, signal: null })
    expect(relay.stdout).toBe('')
    for (const line of relay.stderr.trim().split('\n'))
      expect(JSON.parse(line)).toMatchObject({ msg: expect.any(String) })
    expect(relay.stderr).not.toContain('9007199254740993')
    const [row] = await database.rows('SELECT processed_at FROM "waybill".outbox_events')
    expect(row!['processed_at']).not.toBeNull()
    const free = await database.rows('SELECT FROM "waybill".outbox_buckets WHERE owner IS NOT NULL')
    expect(free).toEqual([])
  })

  test('takes the port of the configuration, and names one that is in use', async () => {
    const database = await createTestDatabase()
    const taken = createTcpServer().listen(0, '127.0.0.1')
    await once(taken, 'listening')
    atEndOfFile(() => taken.close())
    const { port } = taken.address() as AddressInfo
    const cwd = await folderWith({ ...hook('http://127.0.0.1:1/'), admin: { port } })
    const relay = startRelay(cwd, database, [])
    expect((await relay.exit).code).toBe(2)
    expect(relay.stderr).toContain(`waybill: the HTTP address 127.0.0.1:${port} is in use`)
    expect(relay.stdout).toBe('')
  })

  test('refuses an address that others can reach without a token', async () => {
    const database = await createTestDatabase()
    const cwd = await folderWith({ ...hook('http://127.0.0.1:1/'), admin: { host: '0.0.0.0', port: 0 } })
    const relay = startRelay(cwd, database, [])
    expect((await relay.exit).code).toBe(2)
    expect(relay.stderr).toMatch(
      /^waybill: .*admin\.host "0\.0\.0\.0" can be reached from other machines: set admin\.token/,
    )
  })

  test('starts with the database down, is not ready, and goes on when it comes', async () => {
    const server = await startTestServer()
    const database = await createTestDatabase({ server })
    await insert(database, '{"n": 1}')
    const receiver = await startReceiver()
    await server.kill('SIGINT')
    const relay = startRelay(await folderWith(hook(receiver.url)), database)
    const address = await addressOf(relay)
    await relay.line(/database is away/)
    expect(await readiness(address)).toMatchObject({ status: 503, text: expect.stringContaining('database') })
    expect((await fetch(`${address}/livez`)).status).toBe(200)
    await server.restart()
    await receiver.received(1)
    await relay.line(/database is back/)
    relay.signal('SIGINT')
    expect((await relay.exit).code).toBe(0)
  })

  test('starts with the destination down and delivers when it comes, without an attempt counted', async () => {
    const database = await createTestDatabase()
    const away = await startReceiver()
    away.answer = async () => 503
    const cwd = await folderWith({ ...hook(away.url), relay: { probeMaxMs: 100 } })
    const relay = startRelay(cwd, database)
    await insert(database, '{"n": 1}')
    await relay.line(/"event":"destination\.down"/)
    away.answer = async () => 204
    await away.received(1)
    await relay.line(/"event":"destination\.up"/)
    relay.signal('SIGTERM')
    expect((await relay.exit).code).toBe(0)
    expect(await database.rows('SELECT attempts FROM "waybill".outbox_events')).toEqual([{ attempts: 0 }])
  })

  test('a second signal ends it at once, with a code that tells', async () => {
    const database = await createTestDatabase()
    const receiver = await startReceiver()
    let asked: () => void
    const reached = new Promise<void>((resolve) => (asked = resolve))
    receiver.answer = () => {
      asked()
      return new Promise(() => undefined)
    }
    const relay = startRelay(await folderWith(hook(receiver.url)), database)
    await addressOf(relay)
    await insert(database, '{"n": 1}')
    await reached
    relay.signal('SIGTERM')
    // Not yet: the call under way has its time.
    await expect(fetch(`${await addressOf(relay)}/livez`)).resolves.toMatchObject({ status: 200 })
    relay.signal('SIGTERM')
    expect((await relay.exit).code).toBe(1)
  })

  test('a stop that overruns its grace time exits with 1', async () => {
    const database = await createTestDatabase()
    const receiver = await startReceiver()
    let asked: () => void
    const reached = new Promise<void>((resolve) => (asked = resolve))
    receiver.answer = () => {
      asked()
      return new Promise(() => undefined)
    }
    const cwd = await folderWith({ ...hook(receiver.url), relay: { stopGraceMs: 200 } })
    const relay = startRelay(cwd, database)
    await insert(database, '{"n": 1}')
    await reached
    relay.signal('SIGTERM')
    expect((await relay.exit).code).toBe(1)
  })

  test('a schema that is not migrated, or newer, ends it with a sentence', async () => {
    const empty = await createTestDatabase({ migrated: false })
    const cwd = await folderWith(hook('http://127.0.0.1:1/'))
    const missing = startRelay(cwd, empty)
    expect((await missing.exit).code).toBe(1)
    expect(asDefault(missing.stderr)).toContain(
      'waybill: the schema "waybill" is not migrated, run "waybill migrate"\n',
    )
    const newer = await createTestDatabase()
    await newer.query('UPDATE "waybill".schema_version SET version = version + 1')
    const refused = startRelay(cwd, newer)
    expect((await refused.exit).code).toBe(1)
    expect(refused.stderr).toMatch(/newer than the \d+ this program knows: upgrade waybill\n$/)
  })

  test('without a destination it says so', async () => {
    const relay = startRelay(await folderWith({}), { url: 'postgres://127.0.0.1:1/x', schema: testSchema })
    expect((await relay.exit).code).toBe(2)
    expect(relay.stderr).toContain(
      'expected destinations to name at least one destination, but there is none',
    )
  })

  test('status shows it with its buckets and destination', async () => {
    const database = await createTestDatabase()
    const receiver = await startReceiver()
    const cwd = await folderWith(hook(receiver.url))
    const relay = startRelay(cwd, database)
    await insert(database, '{"n": 1}')
    await receiver.received(1)
    await untilReady(await addressOf(relay))
    const waybill = createCli(cwd, database)
    const { relays } = (await waybill(['status', '--json'])).json()
    expect(relays).toMatchObject([{ processId: relay.pid, buckets: Array.from({ length: 64 }, (_, n) => n) }])
    const { stdout } = await waybill(['status'])
    expect(stdout).toMatch(/buckets +64 of 64 owned/)
    relay.signal('SIGTERM')
    expect((await relay.exit).code).toBe(0)
  })
})

describe('relay --once', () => {
  test('publishes what is due, prints a summary and ends', async () => {
    const database = await createTestDatabase()
    const receiver = await startReceiver()
    const cwd = await folderWith({
      ...hook(receiver.url),
      routes: [{ aggregateType: 'order', to: 'hook' }],
    })
    for (const n of [1, 2, 3]) await insert(database, `{"n": ${n}}`)
    await database.query(
      `INSERT INTO "waybill".outbox_events (aggregate_type, aggregate_id, event_type, payload) VALUES ('other', '1', 'x', '{}')`,
    )
    const waybill = createCli(cwd, database)
    const { code, stdout } = await waybill(['relay', '--once'])
    expect({ code, stdout }).toEqual({ code: 0, stdout: 'published 3 events, 0 failures, 1 dead letter\n' })
    expect(receiver.deliveries.map(({ body }) => body)).toEqual(['{"n": 1}', '{"n": 2}', '{"n": 3}'])
    const again = await waybill(['relay', '--once', '--json'])
    expect(again.json()).toEqual({ published: 0, failed: 0, dead: 0, stuck: 0 })
  })

  test('runs from the configuration that init writes', async () => {
    const database = await createTestDatabase()
    const id = await insert(database, '{"n": 1}')
    const cwd = await temporaryFolder()
    const waybill = createCli(cwd)
    await waybill(['init', '--format', 'ts', '--schema', database.schema])
    const { code, stdout, stderr } = await waybill(['relay', '--once'], { DATABASE_URL: database.url })
    expect(code).toBe(0)
    expect(JSON.parse(stdout)).toMatchObject({ id, key: 'o-1', topic: 'outbox.event.order', body: { n: 1 } })
    expect(stderr).toMatch(/^published 1 event, 0 failures, 0 dead letters$/m)
  })

  test('ends with 1 and a count when a destination is away', async () => {
    const database = await createTestDatabase()
    await insert(database, '{"n": 1}')
    const cwd = await folderWith({ ...hook('http://127.0.0.1:1/'), relay: { probeMaxMs: 50 } })
    const { code, stdout } = await createCli(cwd, database)(['relay', '--once'])
    expect(code).toBe(1)
    expect(stdout).toMatch(
      /^published 0 events, \d+ failures?, 0 dead letters; 1 event could not go out, their destination is away\n$/,
    )
  })

  test('does not wait for a database that is down', async () => {
    const cwd = await folderWith(hook('http://127.0.0.1:1/'))
    const result = await createCli(cwd, 'postgres://127.0.0.1:1/x')(['relay', '--once'])
    expect(result).toMatchObject({ code: 3, stdout: '' })
  })
})
