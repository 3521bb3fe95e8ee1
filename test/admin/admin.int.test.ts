import { request as httpRequest } from 'node:http'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { type Health, createAdminApp, routesOf } from '../../src/admin/app.ts'
import { httpOnlyCodes } from '../../src/admin/errors.ts'
import {
  type AdminAddress,
  type AdminServer,
  type AdminServerOptions,
  createAdminServer,
} from '../../src/admin/server.ts'
import { createMetrics } from '../../src/telemetry/metrics.ts'
import { type TelemetryEvents, createTelemetry } from '../../src/telemetry/events.ts'
import { dead, plant, published } from '../operations/plant.ts'
import { type TestDatabase, createTestDatabase } from '../support/postgres.ts'

let database: TestDatabase
const telemetry = createTelemetry()
const metrics = createMetrics({ telemetry })
let health: Health = { live: true, ready: true, reason: null }
const servers: AdminServer[] = []

async function start(options: Partial<AdminServerOptions> = {}): Promise<AdminAddress> {
  const server = createAdminServer({
    port: 0,
    database: { databaseUrl: database.url, schema: 'waybill' },
    health: () => health,
    ...{ metrics, telemetry },
    ...options,
  })
  servers.push(server)
  return server.start()
}

interface Answer {
  status: number
  headers: Record<string, string | string[] | undefined>
  text: string
  json: any
}

/** fetch() does not let a test choose Host, Origin or Sec-Fetch-Site. */
function send(
  { port, host }: AdminAddress,
  path: string,
  {
    method = 'GET',
    headers = {},
    body,
  }: { method?: string; headers?: Record<string, string>; body?: string } = {},
): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const request = httpRequest({ port, host, path, method, headers, agent: false }, (response) => {
      const chunks: Buffer[] = []
      response.on('data', (chunk: Buffer) => chunks.push(chunk))
      response.on('end', () => {
        const text = Buffer.concat(chunks).toString()
        const json = response.headers['content-type']?.startsWith('application/json')
          ? JSON.parse(text)
          : undefined
        resolve({ status: response.statusCode!, headers: response.headers, text, json })
      })
    })
    request.on('error', reject)
    request.end(body)
  })
}

const act = (address: AdminAddress, path: string, body: unknown, headers: Record<string, string> = {}) =>
  send(address, path, {
    method: 'POST',
    body: JSON.stringify(body),
    headers: { 'content-type': 'application/json', 'x-waybill-action': '1', ...headers },
  })
const retryPath = '/api/v1/dead-letters/retry'
const discardPath = '/api/v1/dead-letters/discard'
const secret = 'a-long-secret'
const bearer = { authorization: `Bearer ${secret}` }

let open: AdminAddress
let closed: AdminAddress

beforeAll(async () => {
  database = await createTestDatabase()
  open = await start()
  closed = await start({ token: secret })
})
afterAll(() => Promise.all(servers.map((server) => server.stop())))
beforeEach(async () => {
  health = { live: true, ready: true, reason: null }
  await database.query('TRUNCATE "waybill".outbox_events, "waybill".decisions RESTART IDENTITY')
})

const isDead = async (id: string) =>
  (
    await database.rows(
      'SELECT dead_at IS NOT NULL AND discarded_at IS NULL AS dead FROM "waybill".outbox_events WHERE id = $1',
      [id],
    )
  )[0]!.dead

describe('starting', () => {
  it('takes a free port for 0 and says where it listens', async () => {
    const listening = new Promise<TelemetryEvents['admin.listening']>((resolve) =>
      telemetry.on('admin.listening', resolve),
    )
    const address = await start()
    expect(address.port).toBeGreaterThan(0)
    expect(address).toEqual({
      host: '127.0.0.1',
      port: address.port,
      url: `http://127.0.0.1:${address.port}`,
    })
    expect(await listening).toEqual({ url: address.url })
    expect((await send(address, '/livez')).status).toBe(200)
  })

  it('says that a port is in use', async () => {
    const other = createServer()
    await new Promise<void>((resolve) => other.listen(0, '127.0.0.1', resolve))
    const { port } = other.address() as { port: number }
    await expect(start({ port })).rejects.toMatchObject({
      code: 'CONFIGURATION_INVALID',
      message: `the HTTP address 127.0.0.1:${port} is in use: choose another admin.port, or 0 for a free one`,
    })
    await new Promise((resolve) => other.close(resolve))
  })

  it.each(['0.0.0.0', '::', '192.0.2.1', 'example.org', '127.example.org', ''])(
    'refuses to bind to %j without a token',
    async (host) => {
      await expect(start({ host })).rejects.toMatchObject({
        code: 'CONFIGURATION_INVALID',
        message: expect.stringMatching(/set admin\.token/),
      })
    },
  )

  it.each(['', 'with space', 'línea'])('refuses the token %j', async (token) => {
    await expect(start({ token })).rejects.toMatchObject({
      code: 'CONFIGURATION_INVALID',
      message: expect.not.stringMatching(/línea|with space/),
    })
  })

  it('binds to every address with a token', async () => {
    const address = await start({ host: '0.0.0.0', token: secret })
    expect((await send({ ...address, host: '127.0.0.1' }, '/livez')).status).toBe(200)
  })

  it('answers nobody any more once stopped, and stopping twice is fine', async () => {
    const address = await start()
    const server = servers.at(-1)!
    await send(address, '/api/v1/status')
    await server.stop()
    await server.stop()
    await expect(send(address, '/livez')).rejects.toMatchObject({ code: 'ECONNREFUSED' })
  })
})

describe('health', () => {
  it('is live and ready, or says why not', async () => {
    expect((await send(open, '/livez')).json).toEqual({ live: true, reason: null })
    expect((await send(open, '/readyz')).json).toEqual({ ready: true, reason: null })
    health = { live: true, ready: false, reason: 'destination bus is away' }
    expect(await send(open, '/livez')).toMatchObject({ status: 200, json: { live: true, reason: null } })
    expect(await send(open, '/readyz')).toMatchObject({
      status: 503,
      json: { ready: false, reason: 'destination bus is away' },
    })
    health = { live: false, ready: false, reason: 'the loop has not turned for a minute' }
    expect(await send(open, '/livez')).toMatchObject({
      status: 503,
      json: { live: false, reason: 'the loop has not turned for a minute' },
    })
  })

  it('works without the database', async () => {
    const address = await start({
      database: { databaseUrl: 'postgres://127.0.0.1:1/none', schema: 'waybill' },
    })
    expect((await send(address, '/livez')).status).toBe(200)
    expect((await send(address, '/metrics')).status).toBe(200)
    expect(await send(address, '/api/v1/status')).toMatchObject({
      status: 503,
      json: { error: { code: 'DATABASE_UNREACHABLE', message: expect.stringContaining('127.0.0.1:1/none') } },
    })
  })
})

it('serves the metrics to Prometheus', async () => {
  const answer = await send(open, '/metrics')
  expect(answer.status).toBe(200)
  expect(answer.headers['content-type']).toBe('text/plain; version=0.0.4; charset=utf-8')
  expect(answer.text).toMatch(/^# TYPE outbox_events_published_total counter$/m)
})

it('shows a plain page at / that needs nothing from elsewhere', async () => {
  const answer = await send(closed, '/')
  expect(answer.status).toBe(200)
  expect(answer.headers['content-type']).toMatch(/^text\/html/)
  expect(answer.headers['content-security-policy']).toMatch(/default-src 'none'/)
  expect(answer.text).toContain('/api/v1/status')
})

describe('reading', () => {
  it('lists, filters and pages events', async () => {
    const rows = await plant(database, { aggregate: ['order', '1'] }, published, dead)
    const first = await send(open, '/api/v1/events?limit=2')
    expect(first.json.items.map((item: any) => item.id)).toEqual(rows.slice(0, 2).map(({ id }) => id))
    const second = await send(open, `/api/v1/events?limit=2&after=${first.json.next}`)
    expect(second.json).toMatchObject({ items: [{ id: rows[2]!.id, state: 'dead' }], next: null })
    const states = async (query: string) =>
      (await send(open, `/api/v1/events?${query}`)).json.items.map((item: any) => item.state)
    expect(await states('state=dead,published')).toEqual(['published', 'dead'])
    expect(await states('state=dead&state=pending')).toEqual(['pending', 'dead'])
    expect(await states('aggregateType=order&aggregateId=1')).toEqual(['pending'])
    expect(await states('eventType=nothing')).toEqual([])
  })

  it('shows one event, with its payload only when asked for', async () => {
    const [row] = await plant(database, { payload: '{"a": 1.10}' })
    const path = `/api/v1/events/${row!.id}`
    const plain = (await send(open, path)).json
    expect(plain).toMatchObject({ id: row!.id, state: 'pending', blockedBy: null })
    expect(plain).not.toHaveProperty('payload')
    expect((await send(open, `${path}?payload=true`)).json).toMatchObject({
      payload: '{"a": 1.10}',
      headers: {},
    })
  })

  it('lists dead letters with their reason, status and relays', async () => {
    await plant(database, dead)
    expect((await send(open, '/api/v1/dead-letters?error=500')).json.items).toMatchObject([
      { reason: 'HTTP 500' },
    ])
    expect((await send(open, '/api/v1/dead-letters?before=2020-01-01')).json.items).toEqual([])
    expect((await send(open, '/api/v1/status')).json).toMatchObject({ counts: { dead: 1 }, relays: [] })
    expect((await send(open, '/api/v1/relays')).json).toMatchObject({ relays: [], bucketCount: 64 })
  })

  it.each([
    ['/api/v1/events/n-42', 400, 'USAGE_INVALID', /UUID/],
    ['/api/v1/events/0197c3a0-5b7e-7c1d-9a55-3f0c8e3f2b10', 404, 'EVENT_NOT_FOUND', /no event has the id/],
    ['/api/v1/events?limt=1', 400, 'USAGE_INVALID', /did you mean "limit"/],
    ['/api/v1/events?limit=x', 400, 'USAGE_INVALID', /limit/],
    ['/api/v1/events?limit=', 400, 'USAGE_INVALID', /limit/],
    ['/api/v1/events?limit=1&limit=2', 400, 'USAGE_INVALID', /more than once/],
    ['/api/v1/events?state=ded', 400, 'USAGE_INVALID', /did you mean "dead"/],
    ['/api/v1/events?aggregateId=1', 400, 'USAGE_INVALID', /both/],
    ['/api/v1/events?after=x', 400, 'USAGE_INVALID', /cursor/],
    ['/api/v1/events?payload=yes', 400, 'USAGE_INVALID', /true or false/],
    ['/api/v1/dead-letters?before=now', 400, 'USAGE_INVALID', /before/],
    ['/api/v2/events', 404, 'NOT_FOUND', /nothing/],
    ['/api/v1/dead-letters/retry', 405, 'METHOD_NOT_ALLOWED', /method/],
  ])('answers %s with %i %s', async (path, status, code, message) => {
    const answer = await send(open, path)
    expect(answer).toMatchObject({
      status,
      json: { error: { code, message: expect.stringMatching(message) } },
    })
  })

  it('tells the log, and not the caller, what went wrong inside', async () => {
    const failed = new Promise<TelemetryEvents['admin.failed']>((resolve) =>
      telemetry.on('admin.failed', resolve),
    )
    const address = await start({ metrics: { render: () => Promise.reject(new Error('inner detail')) } })
    const answer = await send(address, '/metrics?x=1')
    expect(answer).toMatchObject({ status: 500, json: { error: { code: 'INTERNAL' } } })
    expect(answer.text).not.toContain('inner detail')
    expect(await failed).toEqual({ method: 'GET', path: '/metrics', error: 'inner detail' })
  })

  it('answers several requests at once', async () => {
    await plant(database, dead)
    const answers = await Promise.all(
      Array.from({ length: 20 }, (_, i) => send(open, i % 2 === 0 ? '/api/v1/status' : '/api/v1/events')),
    )
    expect(answers.map(({ status }) => status)).toEqual(Array(20).fill(200))
  })
})

describe('who may ask', () => {
  it('needs the token for the API and the metrics where one is set, and never for health', async () => {
    for (const path of ['/api/v1/status', '/api/v1/events', '/api/v1/nothing', '/metrics']) {
      for (const headers of [
        {},
        { authorization: 'Bearer wrong' },
        { authorization: `Basic ${secret}` },
        { authorization: secret },
        { authorization: `Bearer ${secret}x` },
      ]) {
        const answer = await send(closed, path, { headers })
        expect(answer).toMatchObject({ status: 401, json: { error: { code: 'UNAUTHORIZED' } } })
        expect(answer.headers['www-authenticate']).toBe('Bearer')
        expect(answer.text).not.toContain(secret)
      }
    }
    expect((await send(closed, '/api/v1/status', { headers: bearer })).status).toBe(200)
    expect((await send(closed, '/metrics', { headers: bearer })).status).toBe(200)
    expect((await send(closed, '/livez')).status).toBe(200)
    expect((await send(closed, '/readyz')).status).toBe(200)
  })

  it.each(['evil.example', 'evil.example:4747', '127.0.0.1.evil.example', '192.0.2.1'])(
    'does not answer to the name %j without a token',
    async (host) => {
      for (const path of ['/', '/api/v1/status', '/metrics']) {
        expect(await send(open, path, { headers: { host } })).toMatchObject({
          status: 403,
          json: { error: { code: 'UNAUTHORIZED', message: expect.stringMatching(/localhost/) } },
        })
      }
    },
  )

  it.each(['localhost', 'LOCALHOST:4747', '127.0.0.1:80', '[::1]:4747'])(
    'answers to the name %j',
    async (host) => {
      expect((await send(open, '/api/v1/status', { headers: { host } })).status).toBe(200)
    },
  )

  it('answers to any name with a token', async () => {
    const headers = { ...bearer, host: 'relay.example' }
    expect((await send(closed, '/api/v1/status', { headers })).status).toBe(200)
  })

  it('does not say what a page of another origin may read', async () => {
    const answer = await send(open, '/api/v1/status', { headers: { origin: 'http://evil.example' } })
    expect(answer.headers).not.toHaveProperty('access-control-allow-origin')
  })
})

describe('acting', () => {
  it('retries a dead letter and tells who did it', async () => {
    const [letter] = await plant(database, dead)
    const told = new Promise<TelemetryEvents['dead_letters.retried']>((resolve) =>
      telemetry.on('dead_letters.retried', resolve),
    )
    const answer = await act(open, retryPath, { ids: [letter!.id], reason: 'fixed', decidedBy: 'anna' })
    expect(answer).toMatchObject({ status: 200, json: { matched: 1, changed: 1, complete: true } })
    expect(await isDead(letter!.id)).toBe(false)
    expect(await told).toEqual({ matched: 1, changed: 1, decidedBy: 'anna (local http)' })
    expect(await database.rows('SELECT decided_by, reason FROM "waybill".decisions')).toEqual([
      { decided_by: 'anna (local http)', reason: 'fixed' },
    ])
  })

  it('discards with a reason, in the name of the token', async () => {
    const [letter] = await plant(database, dead)
    const path = '/api/v1/dead-letters/discard'
    expect(await act(closed, path, { all: true }, bearer)).toMatchObject({
      status: 400,
      json: { error: { code: 'USAGE_INVALID', message: expect.stringMatching(/reason/) } },
    })
    expect(await act(closed, path, { filter: { error: '500' }, reason: 'test' }, bearer)).toMatchObject({
      status: 200,
      json: { changed: 1 },
    })
    expect(await isDead(letter!.id)).toBe(false)
    expect(await database.rows('SELECT decided_by FROM "waybill".decisions')).toEqual([
      { decided_by: 'api token' },
    ])
  })

  it('answers 409 when newer events are out already', async () => {
    const [letter] = await plant(database, dead, published)
    expect(await act(open, retryPath, { ids: [letter!.id] })).toMatchObject({
      status: 409,
      json: { error: { code: 'ACTION_REFUSED' } },
    })
    expect((await act(open, retryPath, { ids: [letter!.id], allowOlder: true })).status).toBe(200)
  })

  it.each([
    ['no custom header', { 'x-waybill-action': '' }],
    ['another custom header', { 'x-waybill-action': 'true' }],
    ['a foreign origin', { origin: 'http://evil.example' }],
    ['a sandboxed origin', { origin: 'null' }],
    ['the same host on another port', { origin: 'http://127.0.0.1:1' }],
    ['a cross-site fetch', { 'sec-fetch-site': 'cross-site' }],
    ['a same-site fetch', { 'sec-fetch-site': 'same-site' }],
    ['a foreign name', { host: 'evil.example' }],
  ])('without a token is refused with %s', async (_, headers) => {
    const [letter] = await plant(database, dead)
    for (const path of [retryPath, discardPath]) {
      expect(await act(open, path, { all: true, reason: 'x' }, headers)).toMatchObject({
        status: 403,
        json: { error: { code: 'UNAUTHORIZED' } },
      })
    }
    expect(await isDead(letter!.id)).toBe(true)
  })

  it('without a token is allowed to a page of this very server', async () => {
    await plant(database, dead)
    const headers = { origin: open.url, 'sec-fetch-site': 'same-origin' }
    expect(await act(open, retryPath, { all: true }, headers)).toMatchObject({
      status: 200,
      json: { changed: 1 },
    })
  })

  it('needs the token where one is set, whatever else is sent', async () => {
    const [letter] = await plant(database, dead)
    expect((await act(closed, retryPath, { all: true })).status).toBe(401)
    expect((await act(closed, retryPath, { all: true }, { origin: closed.url })).status).toBe(401)
    expect(await isDead(letter!.id)).toBe(true)
    expect((await act(closed, retryPath, { all: true }, { ...bearer, 'x-waybill-action': '' })).status).toBe(
      200,
    )
  })

  it('never happens with GET, or with a form', async () => {
    const [letter] = await plant(database, dead)
    expect((await send(open, `${retryPath}?all=true`, { headers: { 'x-waybill-action': '1' } })).status).toBe(
      405,
    )
    const form = { 'content-type': 'application/x-www-form-urlencoded' }
    expect((await act(open, retryPath, { all: true }, form)).status).toBe(400)
    expect(await isDead(letter!.id)).toBe(true)
  })

  it.each([
    [{}, /one of the three/],
    [[], /JSON object/],
    [{ all: 'yes' }, /expected all to be true or false/],
    [{ ids: 'x' }, /list of event ids/],
    [{ ids: [1] }, /list of event ids/],
    [{ ids: ['x'] }, /UUID/],
    [{ filter: { evntType: 'x' } }, /did you mean "eventType"/],
    [{ filter: {} }, /filter is empty/],
    [{ filter: { aggregateType: 'a' } }, /both/],
    [{ filter: { aggregateType: 1, aggregateId: 2 } }, /aggregate type/],
    [{ all: true, alowOlder: true }, /did you mean "allowOlder"/],
    [{ all: true, decidedBy: 'x'.repeat(300) }, /decidedBy/],
  ])('refuses the body %j', async (body, message) => {
    expect(await act(open, retryPath, body)).toMatchObject({
      status: 400,
      json: { error: { code: 'USAGE_INVALID', message: expect.stringMatching(message) } },
    })
  })

  it('refuses a body that is no JSON, or too large, in one piece or in many', async () => {
    const headers = { 'content-type': 'application/json', 'x-waybill-action': '1' }
    const post = (body: string, more: Record<string, string> = {}) =>
      send(open, retryPath, { method: 'POST', body, headers: { ...headers, ...more } })
    expect(await post('{"all":')).toMatchObject({ status: 400, json: { error: { code: 'USAGE_INVALID' } } })
    const large = JSON.stringify({ ids: ['x'.repeat(1024 * 1024)] })
    const tooLarge = { status: 413, json: { error: { code: 'BODY_TOO_LARGE' } } }
    expect(await post(large)).toMatchObject(tooLarge)
    const failures: unknown[] = []
    const end = telemetry.on('admin.failed', (failure) => failures.push(failure))
    expect(await post(large, { 'transfer-encoding': 'chunked' })).toMatchObject(tooLarge)
    end()
    expect(failures).toEqual([])
  })
})

describe('docs/reference/http.md', () => {
  const text = readFileSync(new URL('../../docs/reference/http.md', import.meta.url), 'utf8')

  it('has every route and no other', () => {
    const documented = [...text.matchAll(/^\| `((?:GET|POST) \/\S*)` +\|/gm)].map(([, route]) => route)
    const app = createAdminApp({
      ...{ schema: 'waybill', health: () => health, metrics, telemetry },
      ...({ reader: null, actor: null } as never as { reader: never; actor: never }),
      signal: AbortSignal.abort(),
    })
    expect(documented.toSorted()).toEqual(routesOf(app).toSorted())
  })

  it('has every code that only HTTP has', () => {
    const documented = [...text.matchAll(/^\| `([A-Z_]+)` +\| \d{3} +\| only here/gm)].map(([, code]) => code)
    expect(documented.toSorted()).toEqual(Object.keys(httpOnlyCodes).toSorted())
  })
})
