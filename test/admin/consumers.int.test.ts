import { beforeEach, describe, expect, it } from 'vitest'
import type { TelemetryEvents } from '../../src/telemetry/events.ts'
import { plant, published } from '../operations/plant.ts'
import { act, bearer, closed, database, open, send, telemetry } from './admin-bench.ts'

const path = '/api/v1/consumers/dead-letters'

beforeEach(async () => {
  await database.query(
    'TRUNCATE "waybill".processed_events, "waybill".consumer_messages, "waybill".consumers, "waybill".consumer_instances',
  )
  await database.query(
    `INSERT INTO "waybill".consumers (consumer, handlers) VALUES ('billing', '{order.created}')`,
  )
})

/** Dead letters of the consumer `billing`, the oldest first. */
async function plantDead(...ids: string[]): Promise<void> {
  for (const id of ids)
    await database.query(
      `INSERT INTO "waybill".consumer_messages (consumer, event_id, state, error, origin, delivery, body)
       VALUES ('billing', $1, 'dead', 'no', 'test', '{}', '')`,
      [id],
    )
}

const states = async () =>
  (
    await database.rows<{ id: string; state: string }>(
      'SELECT event_id AS id, state FROM "waybill".consumer_messages ORDER BY event_id',
    )
  ).map(({ id, state }) => `${id} ${state}`)

describe('reading', () => {
  it('shows the consumers, alone and in the status', async () => {
    await plantDead('a')
    const expected = {
      consumers: [
        {
          ...{
            name: 'billing',
            handlers: ['order.created'],
            instances: [],
            deadLetters: 1,
            lagSeconds: null,
          },
          results: { applied: 0, stale: 0, rejected: 0, parked: 0, overSeconds: 3600 },
        },
      ],
    }
    expect((await send(open, '/api/v1/consumers')).json).toMatchObject(expected)
    expect((await send(open, '/api/v1/status')).json).toMatchObject(expected)
    expect((await send(closed, '/api/v1/consumers')).status).toBe(401)
    expect((await send(closed, path)).status).toBe(401)
  })

  it('shows for an event what each consumer made of it', async () => {
    const [event] = await plant(database, published)
    await database.query(
      `INSERT INTO "waybill".processed_events (consumer, event_id, result) VALUES ('billing', $1, 'stale')`,
      [event!.id],
    )
    const consumers = [{ consumer: 'billing', result: 'stale', attempts: 0, error: null }]
    expect((await send(open, `/api/v1/events/${event!.id}`)).json).toMatchObject({ consumers })
    expect((await send(open, '/api/v1/events')).json).toMatchObject({ items: [{ consumers }] })
  })

  it('pages through the dead letters of consumers', async () => {
    await plantDead('a', 'b')
    const first = (await send(open, `${path}?consumer=billing&limit=1`)).json
    expect(first).toMatchObject({ items: [{ eventId: 'a', reason: 'no', consumer: 'billing' }] })
    expect((await send(open, `${path}?limit=1&after=${first.next}`)).json).toMatchObject({
      items: [{ eventId: 'b' }],
      next: null,
    })
    for (const wrong of ['limit=0', 'limit=x', 'after=nonsense', 'state=dead'])
      expect((await send(open, `${path}?${wrong}`)).status).toBe(400)
  })
})

describe('acting', () => {
  it('puts dead letters back, and tells who did it', async () => {
    await plantDead('a', 'b')
    const told = new Promise<TelemetryEvents['consumer.retried']>((resolve) =>
      telemetry.on('consumer.retried', resolve),
    )
    const body = { consumer: 'billing', ids: ['a', 'z'], decidedBy: 'anna' }
    expect(await act(open, `${path}/retry`, body)).toMatchObject({
      status: 200,
      json: { changed: 1, notDead: ['z'], overtaken: [], complete: true },
    })
    expect(await states()).toEqual(['a retry', 'b dead'])
    expect(await told).toEqual({ consumer: 'billing', changed: 1, decidedBy: 'anna (local http)' })
  })

  it('gives them up with a reason, in the name of the token', async () => {
    await plantDead('a', 'b')
    const body = { consumer: 'billing', all: true }
    expect((await act(closed, `${path}/discard`, body, bearer)).status).toBe(400)
    expect(await act(closed, `${path}/discard`, { ...body, reason: 'test' }, bearer)).toMatchObject({
      status: 200,
      json: { changed: 2, complete: true },
    })
    expect(await states()).toEqual([])
    expect(await database.rows('SELECT DISTINCT action, decided_by FROM "waybill".decisions')).toEqual([
      { action: 'consumer_discarded', decided_by: 'api token' },
    ])
  })

  it.each([
    ['no custom header', () => open, { 'x-waybill-action': '' }, 403],
    ['a foreign origin', () => open, { origin: 'http://evil.example' }, 403],
    ['no token', () => closed, {}, 401],
  ] as const)('is refused with %s', async (_, server, headers, status) => {
    await plantDead('a')
    for (const action of ['retry', 'discard']) {
      const body = { consumer: 'billing', all: true, reason: 'x' }
      expect((await act(server(), `${path}/${action}`, body, headers)).status).toBe(status)
    }
    expect(await states()).toEqual(['a dead'])
  })

  it.each([
    [{ all: true }],
    [{ consumer: 'billing' }],
    [{ consumer: 'billing', ids: ['a'], all: true }],
    [{ consumer: 'billing', all: false }],
    [{ consumer: 'billing', filter: {}, all: true }],
    [{ consumer: '', all: true }],
  ])('refuses %j', async (body) => {
    await plantDead('a')
    for (const action of ['retry', 'discard'])
      expect((await act(open, `${path}/${action}`, { ...body, reason: 'x' })).status).toBe(400)
    expect(await states()).toEqual(['a dead'])
  })
})

describe('releasing', () => {
  const release = '/api/v1/consumers/release'
  const body = { consumer: 'billing', type: 'order', id: 'o-1', reason: 'never written', decidedBy: 'anna' }

  /** Revision 3 waits; the projection has the first one. */
  async function plantParked(): Promise<void> {
    await database.query('TRUNCATE "waybill".decisions, "waybill".projection_revisions')
    await database.query(
      `INSERT INTO "waybill".projection_revisions (projection, aggregate_type, aggregate_id, revision, event_id)
       VALUES ('invoices', 'order', 'o-1', 1, 'a')`,
    )
    await database.query(
      `INSERT INTO "waybill".consumer_messages
         (consumer, event_id, state, aggregate_type, aggregate_id, revision, projection, delivery, body)
       VALUES ('billing', 'c', 'parked', 'order', 'o-1', 3, 'invoices', '{}', '')`,
    )
  }
  const stored = async () =>
    (await database.rows('SELECT revision::int FROM "waybill".projection_revisions'))[0]!['revision']

  it('lets a projection go on, tells who did it, and does it once', async () => {
    await plantParked()
    const told = new Promise<TelemetryEvents['consumer.released']>((resolve) =>
      telemetry.on('consumer.released', resolve),
    )
    const gap = { skippedFrom: '2', skippedTo: '2' }
    expect(await act(open, release, body)).toMatchObject({
      status: 200,
      json: { consumer: 'billing', projection: 'invoices', aggregate: ['order', 'o-1'], ...gap, next: '3' },
    })
    expect(await told).toEqual({
      ...{ consumer: 'billing', projection: 'invoices', aggregateType: 'order', aggregateId: 'o-1' },
      ...{ ...gap, decidedBy: 'anna (local http)' },
    })
    expect(await stored()).toBe(2)
    expect(await act(open, release, body)).toMatchObject({
      status: 409,
      json: { error: { code: 'ACTION_REFUSED' } },
    })
    expect((await send(open, '/api/v1/decisions')).json.items).toMatchObject([
      {
        ...{ action: 'released', what: 'order o-1:3', decidedBy: 'anna (local http)' },
        details: { consumer: 'billing', projection: 'invoices', ...gap },
      },
    ])
  })

  it('is refused to who may not act, and without a reason or with unknown words', async () => {
    await plantParked()
    expect((await act(open, release, body, { 'x-waybill-action': '' })).status).toBe(403)
    expect((await act(closed, release, body)).status).toBe(401)
    for (const wrong of [{ reason: '' }, { id: '' }, { projection: 7 }, { projektion: 'invoices' }])
      expect((await act(open, release, { ...body, ...wrong })).status).toBe(400)
    expect(await stored()).toBe(1)
  })
})
