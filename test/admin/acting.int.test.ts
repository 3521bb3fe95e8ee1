import { describe, expect, it } from 'vitest'
import type { TelemetryEvents } from '../../src/telemetry/events.ts'
import { dead, plant, published } from '../operations/plant.ts'
import {
  act,
  bearer,
  closed,
  database,
  discardPath,
  isDead,
  open,
  retryPath,
  send,
  telemetry,
} from './admin-bench.ts'

describe('acting', () => {
  it('retries a dead letter and tells who did it', async () => {
    const [letter] = await plant(database, dead)
    const told = new Promise<TelemetryEvents['dead_letters.retried']>((resolve) =>
      telemetry.on('dead_letters.retried', resolve),
    )
    const answer = await act(open, retryPath, { ids: [letter!.id], reason: 'fixed', decidedBy: 'on-call' })
    expect(answer).toMatchObject({ status: 200, json: { matched: 1, changed: 1, complete: true } })
    expect(await isDead(letter!.id)).toBe(false)
    expect(await told).toEqual({ matched: 1, changed: 1, decidedBy: 'on-call (local http)' })
    expect(await database.rows('SELECT decided_by, reason FROM "waybill".decisions')).toEqual([
      { decided_by: 'on-call (local http)', reason: 'fixed' },
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
