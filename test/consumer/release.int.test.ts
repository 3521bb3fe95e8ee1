import { randomUUID } from 'node:crypto'
import { beforeAll, describe, expect, test } from 'vitest'
import { freshnessReader, projection, reject } from '../../src/consumer/index.ts'
import { createConnection } from '../../src/database/connection.ts'
import { type ReleaseOptions, releaseParked } from '../../src/operations/release-parked.ts'
import { atEndOfFile } from '../support/cleanups.ts'
import { type TestDatabase, createTestDatabase, waitsForLock } from '../support/postgres.ts'
import { testSchema } from '../support/target.ts'
import {
  type TestConsumer,
  type TestConsumerOptions,
  deferred,
  handSource,
  note,
  testConsumer,
} from './harness.ts'

let db: TestDatabase
beforeAll(async () => {
  db = await createTestDatabase()
  await db.query(
    'CREATE TABLE history (projection text, id text, revision int, at int GENERATED ALWAYS AS IDENTITY)',
  )
})

/** A projection without gaps that writes down what it applied; `before` runs in its transaction before that. */
async function contiguous(
  before: (revision: number) => unknown = () => undefined,
  options: Partial<TestConsumerOptions> = {},
) {
  const notes = projection({ name: `notes-${randomUUID()}`, mode: 'contiguous', schema: testSchema })
  const consumer = await testConsumer(db, {
    ...options,
    maxAttempts: 3,
    handlers: {
      'note.published': ({ event, tx }) =>
        notes.apply(tx, event, async () => {
          await tx.query('INSERT INTO history (projection, id, revision) VALUES ($1, $2, $3)', [
            ...[notes.name, event.aggregateId, String(event.revision)],
          ])
          await before(Number(event.revision))
        }),
    },
  })
  return {
    ...{ notes, consumer },
    deliver: (id: string, n: number) => consumer.deliver(note({ aggregateId: id, revision: String(n) })),
    applied: async (id: string) =>
      (
        await db.rows<{ revision: number }>(
          'SELECT revision FROM history WHERE projection = $1 AND id = $2 ORDER BY at',
          [notes.name, id],
        )
      ).map(({ revision }) => revision),
  }
}

async function release(consumer: TestConsumer, id: string, changes: Partial<ReleaseOptions> = {}) {
  const connection = createConnection({ databaseUrl: db.url, schema: db.schema })
  try {
    return await releaseParked(connection, db.schema, {
      ...{ consumer: consumer.name, aggregate: ['note', id], reason: 'lost in the migration' },
      ...changes,
    })
  } finally {
    await connection.close()
  }
}

/** One that another look took up as well is handled once, and then a duplicate. */
const handledIn = (consumer: TestConsumer, n: number) =>
  consumer.until('consumer.handled', () => {
    const handled = consumer.events('consumer.handled').filter(({ result }) => result !== 'duplicate')
    return handled.length >= n
  })
const decisionsOf = (id: string) =>
  db.rows(
    `SELECT action, revision::int, decided_by, reason, details FROM "waybill".decisions WHERE aggregate_id = $1`,
    [id],
  )
const resultsOf = (consumer: TestConsumer, id: string) =>
  db.rows(
    `SELECT revision::int, result, error FROM "waybill".processed_events
     WHERE consumer = $1 AND aggregate_id = $2 ORDER BY revision`,
    [consumer.name, id],
  )
const lockWaits = (most: number) =>
  expect
    .poll(
      () =>
        db.rows(
          `SELECT FROM pg_stat_activity WHERE datname = current_database() AND ${waitsForLock}
             AND query LIKE '%released%'`,
        ),
      { timeout: 20_000, interval: 20 },
    )
    .toHaveLength(most)

describe('a release', () => {
  test('lets the parked ones be applied in order, and is recorded; a late one is stale', async () => {
    const { consumer, notes, deliver, applied } = await contiguous()
    for (const n of [1, 6, 5, 4]) await deliver('n-42', n)
    expect(await applied('n-42')).toEqual([1])
    expect(await release(consumer, 'n-42', { decidedBy: 'anna' })).toEqual({
      ...{ consumer: consumer.name, projection: notes.name, aggregate: ['note', 'n-42'] },
      ...{ skippedFrom: '2', skippedTo: '3', next: '4' },
    })
    await handledIn(consumer, 4)
    expect(await applied('n-42')).toEqual([1, 4, 5, 6])
    expect(await decisionsOf('n-42')).toEqual([
      {
        ...{ action: 'released', revision: 4, decided_by: 'anna', reason: 'lost in the migration' },
        details: { consumer: consumer.name, projection: notes.name, skippedFrom: '2', skippedTo: '3' },
      },
    ])
    for (const n of [2, 3]) expect(await deliver('n-42', n)).toEqual({ status: 'done' })
    expect(await applied('n-42')).toEqual([1, 4, 5, 6])
    expect((await resultsOf(consumer, 'n-42')).map(({ result }) => result)).toEqual([
      ...['applied', 'stale', 'stale', 'applied', 'applied', 'applied'],
    ])
    expect(consumer.events('consumer.failed')).toEqual([])
  })

  test('goes to the first parked one only, also where the first revision of all is missing', async () => {
    const { consumer, deliver, applied } = await contiguous()
    for (const n of [3, 6]) await deliver('first', n)
    expect(await release(consumer, 'first')).toMatchObject({ skippedFrom: null, skippedTo: '2', next: '3' })
    await handledIn(consumer, 1)
    expect(await applied('first')).toEqual([3])
    expect(await release(consumer, 'first')).toMatchObject({ skippedFrom: '4', skippedTo: '5', next: '6' })
    await handledIn(consumer, 2)
    expect(await applied('first')).toEqual([3, 6])
  })

  test('shows nobody a revision that was skipped', async () => {
    const { consumer, notes, deliver, applied } = await contiguous()
    for (const n of [1, 3]) await deliver('window', n)
    await consumer.stop()
    await release(consumer, 'window')
    const reader = freshnessReader({ projection: notes, database: db.client, canonical: async () => 3n })
    expect(await reader.freshness(['note', 'window'])).toMatchObject({ state: 'behind', projected: null })
    await expect(reader.waitUntilVisible(['note', 'window'], 2, { timeoutMs: 1 })).rejects.toMatchObject({
      code: 'PROJECTION_BEHIND',
    })
    const late = await testConsumer(db, {
      name: consumer.name,
      pollIntervalMs: 3_600_000,
      handlers: { '*': ({ event, tx }) => notes.apply(tx, event, () => expect.unreachable()) },
    })
    await late.deliver(note({ aggregateId: 'window', revision: '2' }))
    expect((await resultsOf(consumer, 'window'))[1]).toMatchObject({
      ...{ revision: 2, result: 'stale' },
      error: `${notes.name} was released from waiting for revision 2`,
    })
    expect(await applied('window')).toEqual([1])
  })
})

describe('a release is refused', () => {
  test('for a consumer or an aggregate that nobody knows, and where nothing is parked', async () => {
    const { consumer, deliver } = await contiguous()
    await deliver('whole', 1)
    for (const [id, changes, message] of [
      ['whole', { consumer: 'nobody' }, /^no consumer "nobody" is known in this database/],
      ['no-such', {}, /knows nothing of note "no-such"/],
      ['whole', {}, /^nothing of note "whole" is parked in the consumer/],
    ] as const)
      await expect(release(consumer, id, changes)).rejects.toMatchObject({
        ...{ code: 'ACTION_REFUSED', message: expect.stringMatching(message) as string },
      })
    await expect(release(consumer, 'whole', { reason: ' ' })).rejects.toMatchObject({ code: 'USAGE_INVALID' })
    expect(await decisionsOf('whole')).toEqual([])
  })

  test('when the gap has closed and nobody has gone on yet', async () => {
    const { consumer, notes, deliver } = await contiguous()
    for (const n of [1, 3]) await deliver('closed', n)
    await consumer.stop()
    await db.query(
      `UPDATE "waybill".projection_revisions SET revision = 2, event_id = 'x' WHERE projection = $1`,
      [notes.name],
    )
    await expect(release(consumer, 'closed')).rejects.toThrow(/^nothing is missing before revision 3/)
    expect(await decisionsOf('closed')).toEqual([])
  })

  test('while the consumer has the missing revision among its dead letters', async () => {
    const { consumer, deliver, applied } = await contiguous((n) => {
      if (n === 2) throw reject('no title')
    })
    for (const n of [1, 2, 3]) await deliver('refused', n)
    const [dead] = consumer.events('consumer.dead')
    await expect(release(consumer, 'refused')).rejects.toThrow(
      `retry or discard the event ${dead!.eventId} with "waybill consumer dead" first`,
    )
    await db.query(`DELETE FROM "waybill".consumer_messages WHERE consumer = $1 AND state = 'dead'`, [
      consumer.name,
    ])
    expect(await release(consumer, 'refused')).toMatchObject({ skippedFrom: '2', skippedTo: '2' })
    await handledIn(consumer, 2)
    expect(await applied('refused')).toEqual([1, 3])
  })

  test('while the consumer tries the missing revision again', async () => {
    let broken = true
    const { consumer, deliver, applied } = await contiguous(
      (n) => {
        if (n === 2 && broken) throw new Error('the list is full')
      },
      { source: handSource({ holding: false }) },
    )
    await deliver('failing', 1)
    expect(await deliver('failing', 2)).toMatchObject({ status: 'again' })
    await deliver('failing', 3)
    await expect(release(consumer, 'failing')).rejects.toThrow(/revision 2 is not missing.* tries it again/)
    broken = false
    await deliver('failing', 2)
    expect(await applied('failing')).toEqual([1, 2, 3])
  })

  test('while another consumer has an earlier one parked in the same projection', async () => {
    const { consumer, notes, deliver } = await contiguous()
    const second = await testConsumer(db, {
      handlers: { '*': ({ event, tx }) => notes.apply(tx, event, () => undefined) },
    })
    await deliver('shared', 5)
    await second.deliver(note({ aggregateId: 'shared', revision: '3' }))
    await expect(release(consumer, 'shared')).rejects.toThrow(
      `revision 3 is not missing, the consumer "${second.name}" has it parked in the same projection`,
    )
  })

  test('until it says which, where several projections wait', async () => {
    const [a, b] = ['a', 'b'].map((name) =>
      projection({ name: `${name}-${randomUUID()}`, mode: 'contiguous', schema: testSchema }),
    ) as [ReturnType<typeof projection>, ReturnType<typeof projection>]
    const consumer = await testConsumer(db, {
      handlers: {
        'note.published': ({ event, tx }) => a.apply(tx, event, () => undefined),
        'note.counted': ({ event, tx }) => b.apply(tx, event, () => undefined),
      },
    })
    await consumer.deliver(note({ aggregateId: 'two', revision: '3' }))
    await consumer.deliver(note({ aggregateId: 'two', revision: '4', eventType: 'note.counted' }))
    await expect(release(consumer, 'two')).rejects.toThrow(
      `name one with --projection: "${a.name}", "${b.name}"`,
    )
    await expect(release(consumer, 'two', { projection: 'c' })).rejects.toThrow(
      /parked in this projection, but in others/,
    )
    expect(await release(consumer, 'two', { projection: a.name })).toMatchObject({ skippedTo: '2' })
  })
})

describe('a release at the same moment', () => {
  test('as the missing revision is applied waits for it, and is refused', async () => {
    const [entered, go] = [deferred(), deferred()]
    const { consumer, deliver, applied } = await contiguous(async (n) => {
      if (n !== 2) return
      entered.resolve()
      await go.promise
    })
    for (const n of [1, 3]) await deliver('race', n)
    const missing = deliver('race', 2)
    await entered.promise
    const released = Promise.allSettled([release(consumer, 'race')])
    await lockWaits(1)
    go.resolve()
    await missing
    const message = expect.stringMatching(/^nothing is missing before revision 3/) as string
    expect(await released).toMatchObject([{ status: 'rejected', reason: { message } }])
    await handledIn(consumer, 3)
    expect(await applied('race')).toEqual([1, 2, 3])
    expect(await decisionsOf('race')).toEqual([])
  })

  test('as another one is refused', async () => {
    const { consumer, notes, deliver, applied } = await contiguous()
    for (const n of [1, 3]) await deliver('both', n)
    const holder = await db.connect()
    await holder.query('BEGIN')
    await holder.query(
      db.sql(`SELECT FROM "waybill".projection_revisions WHERE projection = '${notes.name}' FOR UPDATE`),
    )
    const both = Promise.allSettled([release(consumer, 'both'), release(consumer, 'both')])
    await lockWaits(2)
    await holder.query('ROLLBACK')
    const outcomes = (await both).toSorted((one, other) => one.status.localeCompare(other.status))
    expect(outcomes).toMatchObject([
      { status: 'fulfilled', value: { skippedFrom: '2' } },
      { status: 'rejected', reason: { code: 'ACTION_REFUSED' } },
    ])
    await handledIn(consumer, 2)
    expect(await applied('both')).toEqual([1, 3])
    expect(await decisionsOf('both')).toHaveLength(1)
    await holder.end()
  })

  test('whoever wins, nothing is lost or applied twice', { timeout: 120_000 }, async () => {
    const { consumer, deliver, applied } = await contiguous()
    const connection = createConnection({ databaseUrl: db.url, schema: db.schema })
    atEndOfFile(() => connection.close())
    const winners = new Set<string>()
    for (let round = 0; round < 60; round++) {
      const id = `any-${round}`
      for (const n of [1, 3, 4]) await deliver(id, n)
      const options = { consumer: consumer.name, aggregate: ['note', id] as const, reason: 'race' }
      const released = releaseParked(connection, db.schema, options).then(
        () => true,
        () => false,
      )
      // The head start of the release, in round trips: from none to all that it needs.
      for (let trips = 0; trips < round % 6; trips++) await db.query('SELECT 1')
      await deliver(id, 2)
      const won = await released
      winners.add(won ? 'release' : 'revision')
      await handledIn(consumer, 4 * (round + 1))
      expect(await applied(id)).toEqual(won ? [1, 3, 4] : [1, 2, 3, 4])
      expect(await decisionsOf(id)).toHaveLength(won ? 1 : 0)
      expect((await resultsOf(consumer, id)).map(({ result }) => result)).toEqual([
        ...['applied', won ? 'stale' : 'applied', 'applied', 'applied'],
      ])
    }
    expect(winners.size).toBe(2)
  })
})
