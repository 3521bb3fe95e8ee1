import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { handlerPublisher } from '../../src/brokers/handler.ts'
import { pg as pgClient } from '../../src/clients/pg.ts'
import { createConsumer, inProcessSource, projection, reject } from '../../src/consumer/index.ts'
import { createOutbox } from '../../src/index.ts'
import { type Diagnosis, createDiagnosis } from '../../src/publications/index.ts'
import { type Message, rejectedBy, undeliverable } from '../../src/publishing/publisher.ts'
import { testRelay } from '../relay/harness.ts'
import { type TestDatabase, createTestDatabase } from '../support/postgres.ts'
import { testSchema } from '../support/target.ts'
import { plantHealthy } from './fixtures/healthy.ts'

// Each situation in which a note can be, made by what makes it in life: a write path, a broker, a consumer, a cache.
// Nothing is written into Waybill's own tables but healthy neighbours, and one event by plain SQL.

let database: TestDatabase
let diagnosis: Diagnosis
let close: () => Promise<unknown>

/** State, symptom, cause, owner. */
const situations: Readonly<Record<string, readonly [string, string | null, string, string | null]>> = {
  'forgotten:1': ['note-only', 'intent-missing', 'no-intent', 'service'],
  'fresh:1': ['intent-pending', null, 'not-yet-relayed', 'relay'],
  'late:1': ['intent-pending', 'intent-overdue', 'relay-late', 'relay'],
  'behind:2': ['intent-pending', null, 'behind-blocked-event', 'relay'],
  'given-up:1': ['intent-dead', 'intent-overdue', 'dead-letter', 'relay'],
  'in-queue:1': ['intent-relayed', null, 'no-receipt-yet', 'consumer'],
  'refused:1': ['intent-relayed', 'projection-old', 'consumer-rejected', 'consumer'],
  'gap:2': ['intent-relayed', 'projection-old', 'parked-behind-gap', 'consumer'],
  'removed:1': ['intent-relayed', 'projection-old', 'applied-but-projection-old', 'projection'],
  'double:1': ['projection-current', 'applied-twice', 'no-condition', 'consumer'],
  'cached:2': ['projection-current', 'public-read-old', 'cached', 'read'],
  'elsewhere:1': ['projection-current', 'public-read-old', 'read-elsewhere', 'read'],
  'healthy:1': ['projection-current', null, 'visible', null],
}

const outbox = createOutbox({ client: pgClient(), schema: testSchema })

/** Saves the next revision; `publish: false` is an old write path. */
async function save(id: string, { publish = true } = {}): Promise<void> {
  const { client } = database
  await client.query('BEGIN')
  const { rows } = await client.query<{ revision: number }>(
    `INSERT INTO notes AS n (id, revision, body) VALUES ($1, 1, 'text')
     ON CONFLICT (id) DO UPDATE SET revision = n.revision + 1 RETURNING revision`,
    [id],
  )
  const { revision } = rows[0]!
  const aggregate = ['note', id] as const
  if (publish) await outbox.publish(client, { type: 'note.published', aggregate, payload: { id }, revision })
  await client.query('COMMIT')
}

/** A public list and its reader: `cached` answers from a cache, `elsewhere` reads another copy. */
function createReader() {
  const cache = new Map<string, string>()
  const server = createServer((request, response) => {
    const id = decodeURIComponent(request.url!.slice(1))
    const answer = async () => {
      if (id === 'elsewhere') return '{"revision": 0}'
      const kept = cache.get(id)
      if (kept !== undefined) return kept
      const [note] = await database.rows<{ revision: number }>(
        'SELECT revision FROM public_notes WHERE id = $1 LIMIT 1',
        [id],
      )
      const text = note === undefined ? undefined : JSON.stringify(note)
      if (text !== undefined && id === 'cached') cache.set(id, text)
      return text
    }
    void answer().then((text) => {
      const aged =
        cache.get(id) === text && text !== undefined ? { age: '30', 'cache-control': 'max-age=300' } : {}
      response.writeHead(text === undefined ? 404 : 200, aged).end(text)
    })
  })
  return {
    async open() {
      await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
      return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
    },
    close: () =>
      new Promise((resolve) => {
        server.close(resolve)
        server.closeAllConnections()
      }),
  }
}

beforeAll(async () => {
  database = await createTestDatabase()
  // As somebody makes it who does not know that an event may come twice: nothing keeps a second row out.
  await database.query(`CREATE TABLE notes (id text PRIMARY KEY, revision int NOT NULL, body text NOT NULL);
    CREATE TABLE public_notes (id text NOT NULL, revision int NOT NULL)`)
  const reader = createReader()
  const url = await reader.open()
  diagnosis = createDiagnosis({
    ...{ databaseUrl: database.url, schema: testSchema },
    publications: {
      note: {
        source: { table: 'notes' },
        pendingLimitSeconds: 600,
        consumers: ['public-list'],
        projections: [{ name: 'public_notes', table: 'public_notes' }],
        reads: [{ name: 'public list', url: `${url}/{id}` }],
      },
    },
  })
  const source = inProcessSource()
  const publicNotes = projection({ name: 'public_notes', mode: 'contiguous', schema: testSchema })
  const consumer = createConsumer({
    ...{ name: 'public-list', database: database.url, schema: testSchema, source },
    handlers: {
      'note.published': async ({ event, tx }) => {
        const { aggregateId: id, revision } = event
        if (id === 'refused') throw reject('nobody wants this')
        const values = [id, String(revision)]
        if (id === 'double') await tx.query('INSERT INTO public_notes VALUES ($1, $2)', values)
        await publicNotes.apply(tx, event, async () => {
          await tx.query('DELETE FROM public_notes WHERE id = $1 AND revision < $2', values)
          await tx.query('INSERT INTO public_notes VALUES ($1, $2)', values)
        })
      },
    },
  })
  await consumer.start()
  /** A broker that takes what it is given, but for three notes. */
  const queue: Message[] = []
  const take = (message: Message) => {
    if (message.aggregateId === 'given-up') throw rejectedBy('the bus', 'it is too large')
    if (message.aggregateId === 'behind') throw undeliverable('not today')
    queue.push(message)
  }
  const handOver = async () => {
    const relay = testRelay(database, {
      destinations: { bus: handlerPublisher(take) },
      afterDeadLetter: 'hold',
    })
    await relay.drain()
    await relay.stop()
  }
  await write()
  await handOver()
  for (const message of queue.splice(0)) {
    if (message.aggregateId === 'in-queue') continue
    await source.handle(message).catch(() => undefined)
  }
  await database.query(`DELETE FROM public_notes WHERE id = 'removed'`)
  await fetch(`${url}/cached`)
  await save('cached')
  await handOver()
  for (const message of queue.splice(0)) await source.handle(message)
  await consumer.stop()
  // From here on no relay is at work.
  await save('fresh')
  await database.query(`INSERT INTO notes VALUES ('late', 1, 'text')`)
  await database.query(`INSERT INTO "waybill".outbox_events
    (aggregate_type, aggregate_id, event_type, payload, revision, created_at)
    VALUES ('note', 'late', 'note.published', '{}', 1, now() - interval '1 hour')`)
  close = () => Promise.all([diagnosis.close(), reader.close()])
}, 60_000)
afterAll(() => close())

async function write(): Promise<void> {
  await save('forgotten', { publish: false })
  await save('behind')
  await save('behind')
  await save('given-up')
  for (const id of ['in-queue', 'refused', 'removed', 'double', 'cached', 'elsewhere', 'healthy'])
    await save(id)
  await save('gap', { publish: false })
  await save('gap')
}

describe('each situation', () => {
  test.each(Object.entries(situations))(
    '%s is told by trace',
    async (key, [state, symptom, cause, owner]) => {
      const [id, revision] = key.split(':') as [string, string]
      const { verdict } = await diagnosis.trace({ type: 'note', id, revision })
      expect(verdict).toMatchObject({ state, symptom, cause, owner })
    },
  )

  test('is found by audit under its symptom, and nothing else', async () => {
    const { symptoms, checked } = await diagnosis.audit('note', { withReads: true })
    expect(checked).toBe(Object.keys(situations).length)
    expect(keysOf(symptoms)).toEqual(expected(() => true))
  })

  test('is found among 200 000 that are well', { timeout: 240_000 }, async () => {
    await plantHealthy(database, 200_000)
    await database.query(`INSERT INTO public_notes SELECT id, revision FROM notes WHERE id LIKE 'n-_______'`)
    const { symptoms, checked, complete } = await diagnosis.audit('note')
    expect({ checked, complete }).toEqual({
      checked: 200_000 + Object.keys(situations).length,
      complete: true,
    })
    // Readers are not asked 200 000 times.
    expect(keysOf(symptoms)).toEqual(expected((symptom) => symptom !== 'public-read-old'))
  })
})

type Symptoms = Awaited<ReturnType<Diagnosis['audit']>>['symptoms']

/** Each symptom with its number and its keys. */
function keysOf(symptoms: Symptoms): Record<string, readonly (string | number)[]> {
  return Object.fromEntries(
    Object.entries(symptoms).map(([symptom, { count, first }]) => [
      symptom,
      [count, ...first.map(({ id, revision }) => `${id}:${revision}`).toSorted()],
    ]),
  )
}

function expected(counts: (symptom: string) => boolean): Record<string, readonly (string | number)[]> {
  const bySymptom = new Map<string, string[]>()
  for (const [key, [, symptom]] of Object.entries(situations)) {
    if (symptom !== null && counts(symptom)) bySymptom.set(symptom, [...(bySymptom.get(symptom) ?? []), key])
  }
  return Object.fromEntries(
    [...bySymptom].map(([symptom, keys]) => [symptom, [keys.length, ...keys.toSorted()]]),
  )
}
