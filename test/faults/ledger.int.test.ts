import { beforeEach, describe, expect, test } from 'vitest'
import { type Ledger, createLedger, whole } from '../support/ledger.ts'
import { type TestDatabase, createTestDatabase } from '../support/postgres.ts'

let database: TestDatabase
let ledger: Ledger
beforeEach(async () => {
  database = await createTestDatabase()
  ledger = await createLedger(database)
})

interface Row {
  eventId: string
  body: string
  aggregate: string
}
/** The outbox in position order. */
const outbox = () =>
  database.rows<Row>(
    `SELECT id AS "eventId", payload::text AS body, aggregate_id AS aggregate FROM "waybill".outbox_events ORDER BY position`,
  )

describe('the ledger', () => {
  test('finds nothing to say when every event arrives once, in order and unaltered', async () => {
    const writers = ledger.startWriters({ count: 4, aggregates: 3 })
    await writers.untilCommitted(100)
    await writers.stop()
    const rows = await outbox()
    expect(rows).toHaveLength(writers.committed)
    for (const row of rows) ledger.arrived(row)
    await ledger.untilDelivered()
    expect(await ledger.verdict()).toEqual(whole(writers.committed))
  })

  test('counts what is lost, twice, out of order, altered, invented and vanished', async () => {
    await ledger.write(12, { aggregates: 2 })
    const rows = await outbox()
    const [first, second, third] = rows.filter(({ aggregate }) => aggregate === 'a-1')
    ledger.arrived(second!)
    ledger.arrived(first!)
    ledger.arrived(first!)
    ledger.arrived({ ...third!, body: third!.body + ' ' })
    ledger.arrived({ eventId: '00000000-0000-4000-8000-000000000000', body: '{}' })
    await database.client.query('DELETE FROM ledger.events WHERE event_id = $1', [rows.at(-1)!.eventId])
    expect(await ledger.verdict()).toEqual({
      ...{ written: 11, delivered: 3, lost: 8, duplicates: 1 },
      ...{ outOfOrder: 1, altered: 1, phantoms: 1, vanished: 1 },
    })
    await expect(ledger.untilDelivered(50)).rejects.toThrow('8 committed events have not arrived after 50 ms')
  })

  test('takes a late commit of a lower position for what it is: the versions of an aggregate decide', async () => {
    const writers = ledger.startWriters({ count: 6, aggregates: 6, pauseMs: 0 })
    await writers.untilCommitted(300)
    await writers.stop()
    const versions = await database.rows<{ inOrder: boolean }>(
      `SELECT version > lag(version, 1, 0) OVER (PARTITION BY aggregate ORDER BY position) AS "inOrder"
       FROM ledger.events JOIN "waybill".outbox_events ON id = event_id`,
    )
    expect(versions.length).toBeGreaterThanOrEqual(300)
    expect(versions.every(({ inOrder }) => inOrder)).toBe(true)
    expect(writers.failed).toBeGreaterThan(0)
  })
})
