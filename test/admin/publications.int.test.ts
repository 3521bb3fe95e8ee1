import { beforeAll, describe, expect, it } from 'vitest'
import type { AdminAddress } from '../../src/admin/server.ts'
import { plant, published } from '../operations/plant.ts'
import { database, send, start } from './admin-bench.ts'

let server: AdminAddress

beforeAll(async () => {
  await database.query(
    'CREATE TABLE public.notes (id text PRIMARY KEY, revision integer NOT NULL, body text)',
  )
  await database.query(`INSERT INTO public.notes VALUES ('n-42', 7, 'text')`)
  server = await start({
    publications: {
      note: {
        source: { table: 'public.notes', id: 'id', revision: 'revision', keeps: 'latest' },
        intent: { eventType: 'note.published', payload: `jsonb_build_object('id', id)` },
        ...{ pendingLimitSeconds: 30, owners: {}, projections: [], consumers: [], reads: [] },
      },
    },
  })
})

const get = async (path: string) => send(server, path)
const post = (path: string, body: unknown, headers: Record<string, string> = { 'x-waybill-action': '1' }) =>
  send(server, path, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify(body),
  })
const key = { type: 'note', id: 'n-42', revision: 7 }

describe('publications over HTTP', () => {
  it('tells a story from a missing intent to a decision', async () => {
    const before = await get('/api/v1/trace?type=note&id=n-42&revision=7')
    expect(before.json.verdict).toMatchObject({ state: 'note-only', symptom: 'intent-missing' })
    expect((await get('/api/v1/audit?publication=note')).json.publications[0].symptoms).toMatchObject({
      'intent-missing': { count: 1 },
    })
    const refused = await post('/api/v1/replays', { ...key, reason: 'hurry' })
    expect([refused.status, refused.json.error.code]).toEqual([409, 'ACTION_REFUSED'])
    const made = await post('/api/v1/intents', { ...key, reason: 'the old path', decidedBy: 'on call' })
    expect([made.status, made.json.intentKey]).toEqual([201, 'n-42:7'])
    const after = await get(`/api/v1/trace/${made.json.eventId}`)
    expect(after.json.verdict.state).toBe('intent-pending')
    expect((await get('/api/v1/decisions?aggregateType=note&aggregateId=n-42')).json.items).toEqual([
      expect.objectContaining({
        action: 'intent created',
        decidedBy: 'on call (local http)',
        what: 'note n-42:7',
      }),
    ])
  })

  it('traces an event without a revision, and an aggregate whose type has no publication', async () => {
    const [event] = await plant(database, { ...published, aggregate: ['order', 'o-1'] })
    for (const path of [`/api/v1/trace/${event!.id}`, '/api/v1/trace?type=order&id=o-1']) {
      expect(await get(path)).toMatchObject({
        status: 200,
        json: {
          ...{
            revision: null,
            intentKey: null,
            configured: false,
            event: { id: event!.id, type: 'order.created' },
          },
          verdict: { state: 'intent-relayed', symptom: null, cause: 'consumer-unknown' },
        },
      })
    }
  })

  it.each([
    ['/api/v1/trace?type=note', 400, 'USAGE_INVALID'],
    ['/api/v1/trace?type=note&id=n-42&revision=1e3', 400, 'USAGE_INVALID'],
    ['/api/v1/trace?type=note&id=nobody', 404, 'REVISION_UNKNOWN'],
    ['/api/v1/trace/0197c3a0-5b7e-7c1d-9a55-3f0c8e3f2b10', 404, 'EVENT_NOT_FOUND'],
    ['/api/v1/audit?publication=nots', 400, 'USAGE_INVALID'],
  ])('answers %s with %i', async (path, status, code) => {
    const answer = await get(path)
    expect([answer.status, answer.json.error.code]).toEqual([status, code])
  })

  it('takes no decision without the header, a reason or a key', async () => {
    expect((await post('/api/v1/intents', { ...key, reason: 'x' }, {})).status).toBe(403)
    for (const body of [
      key,
      { ...key, reason: '…' },
      { ...key, reason: '...' },
      { ...key, reason: 'x', revision: '-1' },
      { ...key, reason: 'x', sope: 'y' },
      [],
    ])
      expect((await post('/api/v1/intents', body)).status).toBe(400)
  })
})
