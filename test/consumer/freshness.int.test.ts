import { ServerResponse, IncomingMessage } from 'node:http'
import { Socket } from 'node:net'
import { randomUUID } from 'node:crypto'
import { beforeAll, expect, test } from 'vitest'
import { pg } from '../../src/clients/pg.ts'
import { freshnessReader, projection, setFreshness } from '../../src/consumer/index.ts'
import { createOutbox } from '../../src/index.ts'
import { type TestDatabase, createTestDatabase } from '../support/postgres.ts'
import { testSchema } from '../support/target.ts'
import { note, testConsumer } from './harness.ts'

let db: TestDatabase
const outbox = createOutbox({ client: pg(), schema: testSchema })
beforeAll(async () => {
  db = await createTestDatabase()
})

async function publish(id: string, revision: number): Promise<void> {
  await db.query('BEGIN')
  await outbox.publish(db.client, { type: 'note.published', aggregate: ['note', id], payload: {}, revision })
  await db.query('COMMIT')
}

async function projecting() {
  const notes = projection({ name: `notes-${randomUUID()}`, schema: testSchema })
  const consumer = await testConsumer(db, {
    handlers: { '*': ({ event, tx }) => notes.apply(tx, event, () => undefined) },
  })
  return {
    notes,
    consumer,
    reader: freshnessReader({ projection: notes, database: db.client }),
    show: (id: string, revision: number) =>
      consumer.deliver(note({ aggregateId: id, revision: String(revision) })),
  }
}

test('freshness tells what is published, what is shown, and since when that is old', async () => {
  const { reader, show } = await projecting()
  const pair = ['note', 'f-1'] as const
  expect(await reader.freshness(pair)).toEqual({
    state: 'unknown',
    canonical: null,
    projected: null,
    since: null,
  })
  await publish('f-1', 7)
  const { since, ...none } = await reader.freshness(pair)
  expect(none).toEqual({ state: 'behind', canonical: 7n, projected: null })
  expect(Math.abs(Date.parse(since!) - Date.now())).toBeLessThan(60_000)
  await show('f-1', 7)
  expect(await reader.freshness(pair)).toEqual({
    state: 'current',
    canonical: 7n,
    projected: 7n,
    since: null,
  })
  await publish('f-1', 8)
  await publish('f-1', 9)
  const behind = await reader.freshness(pair)
  expect(behind).toMatchObject({ state: 'behind', canonical: 9n, projected: 7n })
  const [eight] = await db.rows(
    `SELECT to_char(created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS at
     FROM "waybill".outbox_events WHERE aggregate_id = 'f-1' AND revision = 8`,
  )
  expect(behind.since).toBe(eight!['at'])
})

test('freshness takes the newest revision from wherever it is known', async () => {
  const { notes, show } = await projecting()
  const reader = freshnessReader({ projection: notes, database: db.client, canonical: async () => 3n })
  await show('f-2', 2)
  expect(await reader.freshness(['note', 'f-2'])).toMatchObject({
    state: 'behind',
    canonical: 3n,
    projected: 2n,
  })
})

test('a reader waits for its own write, and for a newer one as well', async () => {
  const { reader, show } = await projecting()
  const waiting = reader.waitUntilVisible(['note', 'w-1'], 2, { timeoutMs: 20_000 })
  await show('w-1', 1)
  await show('w-1', 3)
  expect(await waiting).toBe(3n)
})

test('a reader that waits in vain is told so, with what is shown instead', async () => {
  const { reader, show, notes } = await projecting()
  await show('w-2', 1)
  await expect(reader.waitUntilVisible(['note', 'w-2'], 2n, { timeoutMs: 30 })).rejects.toMatchObject({
    code: 'PROJECTION_BEHIND',
    retryable: true,
    message: expect.stringMatching(
      /did not show revision 2 of "note w-2" within 30 ms, it shows revision 1/,
    ) as string,
    details: { projection: notes.name, projected: 1n },
  })
})

test('a response says which revision it shows and how fresh it is', () => {
  const since = '2026-03-01T10:00:00.123456Z'
  const headers = new Headers()
  setFreshness(headers, { state: 'behind', canonical: 9n, projected: 7n, since })
  expect(Object.fromEntries(headers)).toEqual({
    'x-waybill-revision': '7',
    'x-waybill-freshness': `behind; canonical=9; since=${since}`,
  })
  const response = new ServerResponse(new IncomingMessage(new Socket()))
  setFreshness(response, { state: 'unknown', canonical: null, projected: null, since: null })
  expect(response.getHeaders()).toEqual({ 'x-waybill-freshness': 'unknown' })
})
