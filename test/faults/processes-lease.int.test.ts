import { setTimeout as delay } from 'node:timers/promises'
import { describe, expect, test } from 'vitest'
import { insertEvents, readEvents, testRelay } from '../relay/harness.ts'
import { recordingPublisher } from '../relay/recording-publisher.ts'
import { createTestDatabase } from '../support/postgres.ts'
import { eventually, readSessions } from './kit.ts'

describe('a lease that runs out', () => {
  test('between the record of a suspect and its call: the call is not made until the lease is renewed', async () => {
    const database = await createTestDatabase()
    await insertEvents(database, [{ payload: { n: 1 } }])
    await database.query(
      `UPDATE "waybill".outbox_buckets SET owner = gen_random_uuid(), epoch = 7,
              leased_until = clock_timestamp() - interval '1 second'`,
    )
    // The suspect's own row is locked: putting it on record takes as long as this test wants.
    const row = await database.connect()
    await row.query(database.sql('BEGIN; SELECT FROM "waybill".outbox_events FOR UPDATE'))
    const publisher = recordingPublisher()
    const relay = testRelay(database, { destinations: { bus: publisher }, leaseMs: 1_000, maxAttempts: 2 })
    await relay.start()
    await relay.until('relay.crash_suspected')
    await eventually('the record waits', async () =>
      (await readSessions(database)).some(({ name, waits }) => name === 'waybill mark' && waits),
    )
    // No sign of life, and so no renewal, from here on; one that was under way gives up after a lease.
    const relays = await database.connect()
    await relays.query(database.sql('BEGIN; LOCK TABLE "waybill".outbox_relays IN SHARE MODE'))
    await delay(2_500)
    await row.query('ROLLBACK')
    await eventually('the record is written', async () =>
      (await readSessions(database)).some(({ name, waits }) => name === 'waybill mark' && !waits),
    )
    await delay(200)
    expect(publisher.calls).toEqual([])
    await relays.query('ROLLBACK')
    await publisher.untilDelivered(1)
    await relay.stop()
    expect(await readEvents(database)).toMatchObject([{ published: true, attempts: 0, crashes: 0 }])
  })
})
