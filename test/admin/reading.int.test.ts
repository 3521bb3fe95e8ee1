import { describe, expect, it } from 'vitest'
import type { TelemetryEvents } from '../../src/telemetry/events.ts'
import { dead, plant, published } from '../operations/plant.ts'
import { nodeWarnings } from '../support/warnings.ts'
import { database, open, send, start, telemetry } from './admin-bench.ts'

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
    expect(await states('order=oldest')).toEqual(['pending', 'published', 'dead'])
    expect(await states('order=newest&limit=2')).toEqual(['dead', 'published'])
    const newest = await send(open, '/api/v1/events?order=newest&limit=2')
    expect(await states(`order=newest&after=${newest.json.next}`)).toEqual(['pending'])
    expect(await send(open, `/api/v1/events?after=${newest.json.next}`)).toMatchObject({
      status: 400,
      json: { error: { code: 'USAGE_INVALID', message: expect.stringMatching(/newest events first/) } },
    })
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
    // No relay has counted: it stops early.
    expect((await send(open, '/api/v1/status')).json).toMatchObject({
      counts: { dead: 1 },
      countLimit: 10_000,
      relays: [],
    })
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
    ['/api/v1/events?order=latest', 400, 'USAGE_INVALID', /oldest or newest/],
    ['/api/v1/dead-letters?order=newest', 400, 'USAGE_INVALID', /unknown query parameter/],
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

  it('answers several requests at once, and its sessions take one statement at a time', async () => {
    // pg warns when a session is asked a second thing before it has answered the first.
    const warnings = nodeWarnings()
    await plant(database, dead)
    const answers = await Promise.all(
      Array.from({ length: 20 }, (_, i) => send(open, i % 2 === 0 ? '/api/v1/status' : '/api/v1/events')),
    )
    expect(answers.map(({ status }) => status)).toEqual(Array(20).fill(200))
    expect(warnings).toEqual([])
  })
})
