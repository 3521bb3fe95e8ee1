import { beforeEach, describe, expect, test } from 'vitest'
import { pg as pgClient } from '../../src/clients/pg.ts'
import { createOutbox } from '../../src/index.ts'
import { traceNewest } from '../../src/operations/trace-newest.ts'
import { stepsOf } from '../../src/publications/timeline.ts'
import { type TraceRequest, keyOfEvent, tracePublication } from '../../src/publications/trace.ts'
import { dead, discarded, failing, plant, plantPublished, published } from '../operations/plant.ts'
import { testSchema } from '../support/target.ts'
import { database, publications, relay, sources } from './fixtures/notes.ts'

// Events without a revision, and aggregates whose type has no publication: `order` is not configured, `note` is.

const outbox = createOutbox({ client: pgClient(), schema: testSchema })
beforeEach(async () => {
  await database.query(
    `TRUNCATE "waybill".outbox_events, "waybill".publication_heads, "waybill".replays, "waybill".processed_events,
       "waybill".consumers, "waybill".decisions`,
  )
})

async function publish(type: 'note' | 'order', id: string, revision?: number): Promise<string> {
  const { client } = database
  await client.query('BEGIN')
  await outbox.publish(client, {
    ...{ type: `${type}.touched`, aggregate: [type, id], payload: {} },
    ...(revision === undefined ? {} : { revision }),
  })
  await client.query('COMMIT')
  const [row] = await database.rows<{ id: string }>(
    'SELECT id::text FROM "waybill".outbox_events WHERE aggregate_id = $1 ORDER BY position DESC LIMIT 1',
    [id],
  )
  return row!.id
}
const traceEvent = async (id: string) =>
  tracePublication(sources, publications, await keyOfEvent(sources, id))
const trace = (request: TraceRequest) => traceNewest(sources, publications, request)
const register = (consumer: string, ...handlers: string[]) =>
  database.query('INSERT INTO "waybill".consumers (consumer, handlers) VALUES ($1, $2)', [consumer, handlers])
const recorded = (consumer: string, eventId: string, result: string) =>
  database.query(
    `INSERT INTO "waybill".processed_events (consumer, event_id, result, aggregate_type, aggregate_id, error)
     VALUES ($1, $2, $3, 'order', 'o-1', CASE WHEN $3 = 'rejected' THEN 'no such tenant' END)`,
    [consumer, eventId, result],
  )

describe('a trace of an event without a revision', () => {
  test('follows it from the outbox to the consumers, and says where its way ends', async () => {
    const id = await publish('order', 'o-1')
    await register('billing', 'order.touched')
    await register('search', 'note.published')
    const written = await traceEvent(id)
    expect(written).toMatchObject({
      ...{ revision: null, intentKey: null, configured: false, event: { id, type: 'order.touched' } },
      notice: expect.stringMatching(/has no revision and no publication "order" is configured/) as string,
      verdict: {
        state: 'intent-pending',
        symptom: null,
        cause: 'not-yet-relayed',
        command: `waybill trace ${id}`,
      },
      facts: { intent: { value: { row: { eventId: id, state: 'pending' } } }, commit: { status: 'known' } },
      answers: {
        intent: `without a revision, it is pending, event ${id}`,
        repeatKey: null,
        publicRead: null,
      },
    })
    expect(written.gaps).toContainEqual({
      ...{ name: 'projection', owner: 'projection' },
      reason: 'an event without a revision cannot be looked for there',
    })

    await relay()
    expect((await traceEvent(id)).verdict).toMatchObject({
      ...{ state: 'intent-relayed', symptom: null, cause: 'no-receipt-yet', owner: 'consumer' },
    })
    await recorded('billing', id, 'applied')
    const done = await traceEvent(id)
    expect(done.verdict).toMatchObject({
      ...{ state: 'intent-relayed', symptom: null, cause: 'consumer-done', owner: null },
    })
    expect(stepsOf(done).map(({ who, tone }) => `${who}: ${tone}`)).toEqual([
      ...['event: good', 'commit: quiet', 'relay: open', 'relay: good', 'consumer billing: good'],
    ])
  })

  test('names the same states as a publication while the relay has it', async () => {
    for (const [planted, verdict] of [
      [failing, { state: 'intent-pending', cause: 'not-yet-relayed' }],
      [
        { ...failing, createdAt: "now() - interval '1 hour'" },
        { symptom: 'intent-overdue', cause: 'relay-late' },
      ],
      [dead, { state: 'intent-dead', symptom: 'intent-overdue', cause: 'dead-letter' }],
      [discarded, { state: 'intent-dead', symptom: null, cause: 'discarded' }],
      [published, { state: 'intent-relayed', symptom: null, cause: 'consumer-unknown', owner: 'consumer' }],
    ] as const) {
      const [row] = await plant(database, { ...planted, aggregate: ['order', `o-${verdict.cause}`] })
      expect((await traceEvent(row!.id)).verdict).toMatchObject(verdict)
    }
    const [first, second] = await plant(database, failing, {})
    expect((await traceEvent(second!.id)).verdict).toMatchObject({
      ...{ state: 'intent-pending', cause: 'behind-blocked-event', command: `waybill trace ${first!.id}` },
    })
  })

  test('never repeats what has no key: a dead letter of a consumer is put back, a silent one looked at', async () => {
    await register('billing', '*')
    const [refused, silent] = await plant(database, published, {
      ...published,
      processedAt: "now() - interval '1 hour'",
    })
    await recorded('billing', refused!.id, 'rejected')
    expect((await traceEvent(refused!.id)).verdict).toMatchObject({
      ...{ symptom: null, cause: 'consumer-rejected', owner: 'consumer' },
      command: `waybill consumer dead retry ${refused!.id} --consumer billing`,
    })
    expect((await traceEvent(silent!.id)).verdict).toMatchObject({
      ...{ symptom: null, cause: 'no-receipt', owner: 'consumer', command: 'waybill status' },
    })
  })

  test('of a type with a publication asks its consumers, and waits for none without a handler', async () => {
    const id = await publish('note', 'n-1')
    await relay()
    await register('public-list', 'note.published')
    const found = await traceEvent(id)
    expect(found).toMatchObject({
      configured: true,
      notice: expect.stringMatching(/^The event has no revision, so it is no publication/) as string,
      signs: { source: 'unconfigured', consumer: 'unconfigured', projection: 'unconfigured' },
      verdict: { cause: 'consumer-unknown' },
    })
    expect(stepsOf(found).at(-1)).toMatchObject({
      ...{ who: 'consumer public-list', text: 'has no handler for this type', tone: 'quiet' },
    })
    await recorded('public-list', id, 'applied')
    expect((await traceEvent(id)).verdict.cause).toBe('consumer-done')
  })

  test('tells who decided about it', async () => {
    const [row] = await plant(database, dead)
    await database.query(
      `INSERT INTO "waybill".decisions (action, event_id, decided_by, reason) VALUES ('retried', $1, 'anna', 'why')`,
      [row!.id],
    )
    expect((await traceEvent(row!.id)).facts.decisions).toMatchObject({ value: [{ decidedBy: 'anna' }] })
  })
})

describe('a trace of an aggregate whose type has no publication', () => {
  test('with revisions is that of its newest one, with the consumers of this database', async () => {
    await publish('order', 'o-1', 4)
    await relay()
    await register('billing', 'order.touched')
    const found = await trace({ type: 'order', id: 'o-1' })
    expect(found).toMatchObject({
      ...{ revision: '4', intentKey: 'o-1:4', event: null, configured: false },
      notice: expect.stringMatching(/^There is no publication "order" in the configuration/) as string,
      facts: { consumers: [{ name: 'billing', fact: { value: { result: null } } }] },
      verdict: { state: 'intent-relayed', cause: 'no-receipt-yet' },
    })
  })

  test('without revisions is that of its newest event, waiting or not, however many came after it', async () => {
    const [first] = await plant(database, { ...published, aggregate: ['order', 'o-1'] })
    await plantPublished(database, 20)
    expect((await trace({ type: 'order', id: 'o-1' })).event?.id).toBe(first!.id)
    const [second] = await plant(database, { aggregate: ['order', 'o-1'] })
    expect((await trace({ type: 'order', id: 'o-1' })).event?.id).toBe(second!.id)
    // Written by plain SQL: the event has a revision, and nobody has noted it as the newest.
    await plant(database, { aggregate: ['order', 'o-1'], revision: 9 })
    expect(await trace({ type: 'order', id: 'o-1' })).toMatchObject({ revision: '9', event: null })
    await expect(trace({ type: 'order', id: 'o-2' })).rejects.toMatchObject({
      code: 'REVISION_UNKNOWN',
      message: expect.stringMatching(
        /^no revision of order "o-2" is known, and no publication "order" is configured: name the/,
      ) as string,
    })
  })
})
