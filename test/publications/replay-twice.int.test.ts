import { expect, test } from 'vitest'
import { handlerPublisher } from '../../src/brokers/handler.ts'
import { pg as pgClient } from '../../src/clients/pg.ts'
import { createConsumer, inProcessSource, projection } from '../../src/consumer/index.ts'
import { createOutbox } from '../../src/index.ts'
import { createDiagnosis } from '../../src/publications/index.ts'
import { testRelay } from '../relay/harness.ts'
import { createTestDatabase } from '../support/postgres.ts'

test('one key that is replayed twice has one public effect', async () => {
  const database = await createTestDatabase()
  const { schema } = database
  await database.query(`CREATE TABLE notes (id text PRIMARY KEY, revision int NOT NULL);
    CREATE TABLE public_notes (id text NOT NULL, revision int NOT NULL)`)
  const source = inProcessSource()
  const publicNotes = projection({ name: 'public_notes', schema })
  const effects: string[] = []
  const consumer = createConsumer({
    ...{ name: 'public-list', database: database.url, schema, source },
    handlers: {
      'note.published': async ({ event, tx, effects: of }) => {
        const { aggregateId: id, revision } = event
        await publicNotes.apply(tx, event, () =>
          tx.query('INSERT INTO public_notes VALUES ($1, $2)', [id, String(revision)]),
        )
        await of.once(`mail:${id}:${revision}`, () => void effects.push(`${id}:${revision}`))
      },
    },
  })
  await consumer.start()
  const deliveries: (number | null)[] = []
  const relay = testRelay(database, {
    destinations: {
      list: handlerPublisher(async (message) => {
        deliveries.push(message.replay)
        await source.handle(message)
      }),
    },
  })
  await relay.start()
  const outbox = createOutbox({ client: pgClient(), schema })
  await database.client.query('BEGIN')
  await database.client.query(`INSERT INTO notes VALUES ('n-42', 7)`)
  await outbox.publish(database.client, {
    ...{ type: 'note.published', aggregate: ['note', 'n-42'], payload: { id: 'n-42' }, revision: 7 },
  })
  await database.client.query('COMMIT')
  const diagnosis = createDiagnosis({
    ...{ databaseUrl: database.url, schema },
    publications: { note: { source: { table: 'notes' }, projections: ['public_notes'] } },
  })
  const key = { type: 'note', id: 'n-42', revision: 7 }
  const relayed = async () => (await diagnosis.trace({ type: 'note', id: 'n-42' })).verdict.state
  await expect.poll(relayed, { timeout: 10_000 }).toBe('projection-current')
  for (const number of [1, 2]) {
    const asked = () =>
      diagnosis.replay(key, { reason: 'to be sure' }).then(
        (made) => made.number,
        (error: { code: string }) => error.code,
      )
    // While the first is open a second one is refused.
    await expect.poll(asked, { timeout: 10_000 }).toBe(number)
    await expect.poll(() => deliveries.at(-1), { timeout: 10_000 }).toBe(number)
  }
  await relay.stop()
  await consumer.stop()
  expect(deliveries).toEqual([null, 1, 2])
  expect(effects).toEqual(['n-42:7'])
  expect(await database.rows('SELECT id, revision FROM public_notes')).toEqual([{ id: 'n-42', revision: 7 }])
  await diagnosis.close()
})
