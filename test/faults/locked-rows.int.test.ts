import { setTimeout as delay } from 'node:timers/promises'
import { expect, test } from 'vitest'
import type { Publisher } from '../../src/publishing/publisher.ts'
import { insertEvents, readEvents, testRelay } from '../relay/harness.ts'
import { createLedger } from '../support/ledger.ts'
import { createTestDatabase } from '../support/postgres.ts'
import { eventually, expectWhole, ledgerBroker, readSessions } from './kit.ts'

test(
  'somebody who locks a pending event for many leases holds up its mark, and nothing else',
  { timeout: 60_000 },
  async () => {
    const database = await createTestDatabase()
    const ledger = await createLedger(database)
    const broker = ledgerBroker(ledger, { takesMs: 2 })
    let open!: () => void
    const opened = new Promise<void>((resolve) => (open = resolve))
    let held = 0
    const bus: Publisher = {
      ...broker,
      async publish(messages, call) {
        const own = messages.filter(({ aggregateId }) => aggregateId !== 'held')
        await broker.publish(own, call)
        if (own.length < messages.length) {
          held++
          await opened
        }
        return messages.map(() => ({ status: 'published' }))
      },
    }
    const tuning = { destinations: { bus }, leaseMs: 2_000, batchSize: 10 }
    const relays = [testRelay(database, tuning), testRelay(database, tuning)]
    for (const relay of relays) await relay.start()
    for (const relay of relays) await relay.until('relay.buckets', ({ owned }) => owned === 32)
    const [id] = await insertEvents(database, [{ aggregate: 'held' }])
    await eventually('it is under way', async () => held === 1)
    const somebody = await database.connect()
    await somebody.query('BEGIN')
    await somebody.query(database.sql(`SELECT FROM "waybill".outbox_events WHERE id = $1 FOR UPDATE`), [id])
    const writers = ledger.startWriters()
    open()
    await eventually('its mark waits', async () =>
      (await readSessions(database)).some(({ name, waits }) => name === 'waybill mark' && waits),
    )
    await delay(8_000)
    expect(relays.flatMap((relay) => relay.events('relay.lease_lost'))).toEqual([])
    // The others are marked all the while.
    const seen = ledger.arrivedAt.length
    expect(seen).toBeGreaterThan(200)
    await eventually('what arrived until now is marked', async () => {
      const marked = (await readEvents(database)).filter(({ published }) => published)
      return marked.length >= seen
    })
    await somebody.query('ROLLBACK')
    await writers.stop()
    await ledger.untilDelivered()
    await eventually('it is marked', async () =>
      (await readEvents(database)).some((row) => row.id === id && row.published),
    )
    await Promise.all(relays.map((relay) => relay.stop()))
    expect(held).toBe(1)
    await database.query('DELETE FROM "waybill".outbox_events WHERE id = $1', [id])
    await expectWhole(ledger, database)
  },
)

test('a relay that lost the buckets of what it could not mark is ready again once the database answers', async () => {
  const database = await createTestDatabase()
  let open!: () => void
  const opened = new Promise<void>((resolve) => (open = resolve))
  const bus: Publisher = {
    ...ledgerBroker(await createLedger(database)),
    async publish(messages) {
      await opened
      return messages.map(() => ({ status: 'published' }))
    },
  }
  const relay = testRelay(database, { destinations: { bus } })
  await relay.start()
  await relay.until('relay.buckets', ({ owned }) => owned === 64)
  const [id] = await insertEvents(database, [{}])
  const somebody = await database.connect()
  await somebody.query('BEGIN')
  await somebody.query(database.sql(`SELECT FROM "waybill".outbox_events WHERE id = $1 FOR UPDATE`), [id])
  open()
  await relay.until('database.down')
  await database.query(
    `UPDATE "waybill".outbox_buckets SET owner = gen_random_uuid(), epoch = epoch + 1,
            leased_until = clock_timestamp() + interval '1 hour'`,
  )
  await somebody.query('ROLLBACK')
  await relay.until('relay.lease_lost')
  await relay.until('database.up')
  expect(relay.health()).toMatchObject({ ready: true })
  await relay.stop()
})
