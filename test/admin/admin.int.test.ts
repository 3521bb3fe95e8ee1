import { readFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { describe, expect, it } from 'vitest'
import { createAdminApp, routesOf } from '../../src/admin/app.ts'
import { openFactSources } from '../../src/publications/fact-sources.ts'
import { httpOnlyCodes } from '../../src/admin/errors.ts'
import type { TelemetryEvents } from '../../src/telemetry/events.ts'
import {
  closed,
  health,
  metrics,
  open,
  secret,
  send,
  servers,
  setHealth,
  start,
  telemetry,
} from './admin-bench.ts'
import { testSchema } from '../support/target.ts'

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
    setHealth({ live: true, ready: false, reason: 'destination bus is away' })
    expect(await send(open, '/livez')).toMatchObject({ status: 200, json: { live: true, reason: null } })
    expect(await send(open, '/readyz')).toMatchObject({
      status: 503,
      json: { ready: false, reason: 'destination bus is away' },
    })
    setHealth({ live: false, ready: false, reason: 'the loop has not turned for a minute' })
    expect(await send(open, '/livez')).toMatchObject({
      status: 503,
      json: { live: false, reason: 'the loop has not turned for a minute' },
    })
  })

  it('works without the database', async () => {
    const address = await start({
      database: { databaseUrl: 'postgres://127.0.0.1:1/none', schema: testSchema },
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

describe('docs/reference/http.md', () => {
  const text = readFileSync(new URL('../../docs/reference/http.md', import.meta.url), 'utf8')

  it('has every route and no other', () => {
    const documented = [...text.matchAll(/^\| `((?:GET|POST) \/\S*)` +\|/gm)].map(([, route]) => route)
    const app = createAdminApp({
      ...{ schema: testSchema, health, metrics, telemetry },
      ...({ reader: null, actor: null } as never as { reader: never; actor: never }),
      signal: AbortSignal.abort(),
      facts: openFactSources(null as never, { schema: 'waybill', publications: {} }),
    })
    expect(documented.toSorted()).toEqual(routesOf(app).toSorted())
  })

  it('has every code that only HTTP has', () => {
    const documented = [...text.matchAll(/^\| `([A-Z_]+)` +\| \d{3} +\| only here/gm)].map(([, code]) => code)
    expect(documented.toSorted()).toEqual(Object.keys(httpOnlyCodes).toSorted())
  })
})
