import { AssertionError } from 'node:assert'
import { beforeAll, describe, expect, it } from 'vitest'
import { pg } from '../../src/clients/pg.ts'
import { createOutbox } from '../../src/outbox/outbox.ts'
import { type ExpectedEvent, assertPublished } from '../../src/testing/assert-published.ts'
import { type TestDatabase, createTestDatabase } from '../support/postgres.ts'
import { testSchema } from '../support/target.ts'

describe('assertPublished', () => {
  let database: TestDatabase
  const outbox = createOutbox({ client: pg(), schema: testSchema })
  beforeAll(async () => {
    database = await createTestDatabase()
  })

  const assertHere = (expected: ExpectedEvent) =>
    assertPublished(database.client, expected, { schema: testSchema })

  async function inTransaction(work: () => Promise<void>): Promise<void> {
    await database.client.query('BEGIN')
    try {
      await work()
    } finally {
      await database.client.query('ROLLBACK')
    }
  }

  const publishOrder = () =>
    outbox.publish(database.client, {
      type: 'order.created',
      aggregate: ['order', 'o-1'],
      payload: { total: 1.5, id: 'o-1' },
      headers: { tenant: 'north' },
      revision: 7n,
      operationId: 'op-1',
    })

  it('finds the event before the commit, and answers what it found', async () => {
    await inTransaction(async () => {
      await publishOrder()
      const [event] = await assertHere({
        type: 'order.created',
        aggregate: ['order', 'o-1'],
        payload: { id: 'o-1', total: 1.5 },
        headers: { tenant: 'north' },
        revision: 7,
        operationId: 'op-1',
        times: 1,
      })
      expect(event).toEqual({
        id: expect.stringMatching(/^[0-9a-f-]{36}$/),
        type: 'order.created',
        aggregate: ['order', 'o-1'],
        revision: 7n,
      })
    })
  })

  it.each([
    { type: 'order.paid' },
    { aggregate: ['order', 'o-2'] as const },
    { aggregate: ['invoice', 'o-1'] as const },
    { payload: { id: 'o-1' } },
    { headers: { tenant: 'south' } },
    { headers: { tenant: 'north', other: 'x' } },
    { revision: 8n },
    { operationId: 'op-2' },
    { times: 2 },
    { times: 0 },
  ])('fails for %o', async (expected) => {
    await inTransaction(async () => {
      await publishOrder()
      await expect(assertHere(expected)).rejects.toBeInstanceOf(AssertionError)
    })
  })

  it('says what is there instead, without payloads', async () => {
    await inTransaction(async () => {
      await publishOrder()
      await expect(
        assertHere({
          type: 'order.paid',
          aggregate: ['order', 'o-1'],
          payload: { a: 'hidden' },
        }),
      ).rejects.toThrow(
        'expected at least one event in the outbox with type "order.paid", aggregate order o-1, that payload, found 0; ' +
          'the latest of this aggregate: order.created revision 7',
      )
    })
    await expect(assertHere({})).rejects.toThrow(
      'expected at least one event in the outbox with any content, found 0; there is no event in the outbox ' +
        '(was it published in a transaction that this client sees?)',
    )
  })

  it('looks into the schema that it is told', async () => {
    const other = await createTestDatabase({ schema: 'Other"Schema' })
    await other.query(
      `INSERT INTO "waybill".outbox_events (aggregate_type, aggregate_id, event_type, payload) VALUES ('a', 'b', 'c', '{}')`,
    )
    expect(await assertPublished(other.client, { type: 'c' }, { schema: 'Other"Schema' })).toHaveLength(1)
  })
})
