import { expect, test } from 'vitest'
import { createConnection } from '../../src/database/connection.ts'
import { discardDeadLetters, retryDeadLetters } from '../../src/operations/dead-letters.ts'
import { createTestDatabase } from '../support/postgres.ts'
import { dead, plant } from './plant.ts'

test('a letter that somebody has locked is left, with a sentence; its bucket stays free for its relay', async () => {
  const database = await createTestDatabase()
  const { schema } = database
  const db = createConnection({ databaseUrl: database.url, schema })
  const [letter] = await plant(database, dead)
  const somebody = await database.connect()
  const lock = database.sql('SELECT FROM "waybill".outbox_events WHERE id = $1 FOR UPDATE')
  await somebody.query('BEGIN')
  await somebody.query(lock, [letter!.id])
  const answers = await Promise.allSettled([
    retryDeadLetters(db, schema, { ids: [letter!.id] }),
    discardDeadLetters(db, schema, { all: true, reason: 'test data' }),
  ])
  for (const answer of answers) {
    expect(answer).toMatchObject({
      reason: {
        code: 'DATABASE_TIMEOUT',
        message: expect.stringMatching(/^somebody else has locked one of/),
      },
    })
  }
  // PostgreSQL tells an error a moment before it lets the locks go.
  const free = () =>
    database.rows('SELECT FROM "waybill".outbox_buckets FOR UPDATE NOWAIT').then(
      (rows) => rows.length,
      () => 0,
    )
  await expect.poll(free).toBe(64)
  await somebody.query('ROLLBACK')
  expect(await retryDeadLetters(db, schema, { ids: [letter!.id] })).toMatchObject({ changed: 1 })
  await db.close()
})
