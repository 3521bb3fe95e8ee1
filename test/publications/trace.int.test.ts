import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { pg as pgClient } from '../../src/clients/pg.ts'
import { createConnection } from '../../src/database/connection.ts'
import { createOutbox } from '../../src/index.ts'
import type { FactSources } from '../../src/publications/collect.ts'
import { createPublication } from '../../src/publications/publication.ts'
import { type Trace, tracePublication } from '../../src/publications/trace.ts'
import { testRelay } from '../relay/harness.ts'
import { recordingPublisher } from '../relay/recording-publisher.ts'
import { type TestDatabase, createTestDatabase } from '../support/postgres.ts'
import { testSchema } from '../support/target.ts'

let database: TestDatabase
let sources: FactSources
let close: () => Promise<void>
/** What the public list answers, by id. */
const answers = new Map<string, { status?: number; headers?: Record<string, string>; body: string }>()
const outbox = createOutbox({ client: pgClient(), schema: testSchema })

beforeAll(async () => {
  database = await createTestDatabase()
  await database.query(
    'CREATE TABLE notes (id text PRIMARY KEY, revision integer NOT NULL, body text NOT NULL)',
  )
  const db = createConnection({ databaseUrl: database.url, schema: database.schema })
  const server = createServer((request, response) => {
    const id = decodeURIComponent(request.url!.split('/').at(-1)!)
    const { status = 200, headers = {}, body } = answers.get(id) ?? { status: 404, body: '{}' }
    response.writeHead(status, headers).end(body)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const read = `http://127.0.0.1:${(server.address() as AddressInfo).port}/public/notes/{id}`
  publications = new Map([
    [
      'note',
      createPublication('note', {
        source: { table: 'notes', id: 'id', revision: 'revision', keeps: 'latest' },
        pendingLimitSeconds: 30,
        owners: { relay: 'platform', read: 'web team' },
        projections: ['public_notes'],
        consumers: ['public-list'],
        reads: [{ name: 'public list', url: read, revision: 'body.revision', timeoutMs: 3_000 }],
      }),
    ],
  ])
  sources = { outbox: { db, schema: database.schema }, databaseOf: () => ({ db, schema: database.schema }) }
  close = async () => {
    await db.close()
    server.closeAllConnections()
    server.close()
  }
})
afterAll(() => close())

let publications: Parameters<typeof tracePublication>[1]
const trace = (id: string, revision?: string): Promise<Trace> =>
  tracePublication(sources, publications, {
    type: 'note',
    id,
    ...(revision === undefined ? {} : { revision }),
  })

/** Saves a note, and publishes it as the service should. */
async function save(id: string, revision: number, { withIntent = true } = {}): Promise<void> {
  const { client } = database
  await client.query('BEGIN')
  await client.query(
    'INSERT INTO notes VALUES ($1, $2, $3) ON CONFLICT (id) DO UPDATE SET revision = excluded.revision',
    [id, revision, 'text'],
  )
  if (withIntent) {
    await outbox.publish(client, {
      ...{ type: 'note.published', aggregate: ['note', id], payload: { id }, revision },
    })
    await outbox.accepted(client, { aggregate: ['note', id], revision, operationId: `save-${id}` })
  }
  await client.query('COMMIT')
}

const relay = () =>
  testRelay(database, {
    destinations: {
      bus: recordingPublisher({ behave: () => ({ status: 'published', receipt: 'taken' }) }),
    },
  }).drain()
const consumed = (id: string, revision: number, result = 'applied', eventId = `${id}-${revision}`) =>
  database.query(
    `INSERT INTO "waybill".processed_events (consumer, event_id, result, aggregate_type, aggregate_id, revision, error)
     VALUES ('public-list', $1, $2, 'note', $3, $4, CASE WHEN $2 = 'rejected' THEN 'no title' END)`,
    [eventId, result, id, revision],
  )
const projected = (id: string, revision: number) =>
  database.query(
    `INSERT INTO "waybill".projection_revisions (projection, aggregate_type, aggregate_id, revision, event_id)
     VALUES ('public_notes', 'note', $1, $2, 'e')`,
    [id, revision],
  )

describe('a trace', () => {
  test('of a revision that was saved without an intent', async () => {
    await save('old-path', 3, { withIntent: false })
    const found = await trace('old-path')
    expect(found).toMatchObject({
      revision: '3',
      verdict: {
        state: 'note-only',
        symptom: 'intent-missing',
        cause: 'no-intent',
        owner: 'service',
        team: null,
      },
      answers: { canonicalRevision: 'table notes: 3', intent: null, repeatKey: null },
    })
    expect(found.verdict.command).toBe('waybill intent create note old-path 3 --reason "…"')
  })

  test('of an intent that waits for the relay says what the write API answered, and nothing of loss', async () => {
    await save('n-42', 7)
    const found = await trace('n-42', '007')
    expect(found).toMatchObject({
      ...{ intentKey: 'n-42:7', configured: true },
      verdict: { state: 'intent-pending', symptom: null, owner: 'relay', team: 'platform' },
      facts: {
        source: { status: 'known', value: { holdsRevision: true, newestRevision: '7' } },
        intent: {
          status: 'known',
          value: { headRevision: '7', row: { state: 'pending', operationId: null } },
        },
        answer: { status: 'known', value: { operationId: 'save-n-42' } },
        commit: { status: 'known', value: { exact: true } },
      },
      answers: { repeatKey: 'n-42:7' },
    })
  })

  test('of one that was handed over follows it to the reader', async () => {
    await save('way', 1)
    await relay()
    expect((await trace('way')).verdict).toMatchObject({ state: 'intent-relayed', cause: 'no-receipt-yet' })
    await consumed('way', 1)
    expect((await trace('way')).verdict).toMatchObject({ symptom: 'projection-old', owner: 'projection' })
    await projected('way', 1)
    expect((await trace('way')).verdict).toMatchObject({
      symptom: 'public-read-old',
      owner: 'read',
      team: 'web team',
    })
    answers.set('way', { body: '{"revision": 0}', headers: { age: '300', 'cache-control': 'max-age=600' } })
    expect((await trace('way')).verdict).toMatchObject({ symptom: 'public-read-old', cause: 'cached' })
    answers.set('way', { body: '{"revision": 1}' })
    const found = await trace('way')
    expect(found.verdict).toMatchObject({ state: 'projection-current', symptom: null, owner: null })
    expect(found.answers).toEqual({
      canonicalRevision: 'table notes: 1',
      intent: expect.stringMatching(/^way:1 is published, event /),
      repeatKey: 'way:1',
      confirmedRevision: '1',
      publicRead: 'public list: 1',
    })
    expect(found.gaps).toEqual([])
  })

  test('of one that a consumer rejected, or applied twice, or parked', async () => {
    for (const [id, result, cause] of [
      ['refused', 'rejected', 'consumer-rejected'],
      ['waiting', 'parked', 'parked-behind-gap'],
    ] as const) {
      await save(id, 2)
      await relay()
      await consumed(id, 2, result)
      expect((await trace(id)).verdict).toMatchObject({ symptom: 'projection-old', cause, owner: 'consumer' })
    }
    await save('double', 2)
    await relay()
    await consumed('double', 2)
    await consumed('double', 2, 'applied', 'again')
    await projected('double', 2)
    answers.set('double', { body: '{"revision": 2}' })
    expect((await trace('double')).verdict).toMatchObject({ symptom: 'applied-twice', owner: 'consumer' })
  })

  test('takes what cannot be looked up for a gap, each by itself', async () => {
    await save('gaps', 1)
    await relay()
    answers.set('gaps', { status: 302, headers: { location: '/login' }, body: '' })
    const broken = new Map([
      [
        'note',
        createPublication('note', {
          source: { table: 'no_such_table', id: 'id', revision: 'revision', keeps: 'latest' },
          pendingLimitSeconds: 30,
          ...{ owners: {}, projections: [], consumers: [] },
          reads: publications.get('note')!.reads,
        }),
      ],
    ])
    const found = await tracePublication(sources, broken, { type: 'note', id: 'gaps', revision: '1' })
    expect(found.verdict).toMatchObject({ state: 'intent-relayed', symptom: null, cause: 'consumer-unknown' })
    expect(found.gaps.map(({ name }) => name)).toEqual([
      ...['source', 'consumer', 'projection', 'revision in public read public list'],
    ])
    expect(found.gaps[0]!.reason).toContain('no_such_table')
  })

  test('of an aggregate that nobody knows says so; odd ids and revisions are what they are', async () => {
    await expect(trace('nobody')).rejects.toMatchObject({ code: 'REVISION_UNKNOWN' })
    const id = `a:b/c d%'"😀`
    await save(id, 10)
    await expect(trace(id, '-1')).rejects.toMatchObject({ code: 'USAGE_INVALID' })
    await expect(trace(id, '1e3')).rejects.toMatchObject({ code: 'USAGE_INVALID' })
    expect((await trace(id, '9')).verdict).toMatchObject({
      state: 'unknown',
      symptom: null,
      cause: 'overtaken',
    })
    expect((await trace(id, '10')).verdict.state).toBe('intent-pending')
    expect((await trace(id, '9007199254740993')).verdict.state).toBe('not-saved')
  })
})
