import { setTimeout as delay } from 'node:timers/promises'
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { type TestRelay, testRelay, untilAsleep } from '../relay/harness.ts'
import { type Ledger, createLedger } from '../support/ledger.ts'
import { type TestDatabase, createTestDatabase } from '../support/postgres.ts'
import { expectWhole, ledgerBroker, relaySessions, terminate } from './kit.ts'

let database: TestDatabase
let ledger: Ledger
beforeEach(async () => {
  database = await createTestDatabase()
  ledger = await createLedger(database)
})

async function startRelay(): Promise<TestRelay> {
  const relay = testRelay(database, { destinations: { bus: ledgerBroker(ledger) } })
  await relay.start()
  await relay.until('relay.buckets', ({ owned }) => owned === 64)
  await relay.until('listener.up')
  return relay
}

const channel = `'waybill_' || '"waybill".outbox_events'::regclass::oid`
/** How many milliseconds go by until everything is delivered that was written. */
async function delivery(): Promise<number> {
  const at = performance.now()
  await ledger.untilDelivered()
  return performance.now() - at
}

describe('the wake-up', () => {
  test.for(['', 'buckets'])(
    'under a storm of notifications (payload "%s") on its channel: events flow, and the relay does not run wild',
    async (payload) => {
      const relay = await startRelay()
      await untilAsleep(database)
      const storming = new AbortController()
      let notified = 0
      const storm = Array.from({ length: 3 }, async () => {
        const client = await database.connect()
        while (!storming.signal.aborted) {
          // Each its own transaction: equal ones of a single transaction would become one.
          await client.query(
            database.sql(
              `DO $$ BEGIN FOR i IN 1..50 LOOP PERFORM pg_notify(${channel}, '${payload}'); COMMIT; END LOOP; END $$`,
            ),
          )
          notified += 50
        }
      })
      const statistics = async () => {
        const [row] = await database.rows<{ rounds: number; looks: number }>(
          `SELECT (SELECT n_tup_upd FROM pg_stat_user_tables WHERE relid = '"waybill".outbox_relays'::regclass)::int AS rounds,
                  (SELECT idx_scan FROM pg_stat_user_indexes
                   WHERE indexrelid = '"waybill".outbox_events_pending'::regclass)::int AS looks`,
        )
        return row!
      }
      const before = await statistics()
      const writers = ledger.startWriters({ count: 2 })
      await delay(3_000)
      expect(ledger.arrivedAt.length).toBeGreaterThan(50)
      await writers.stop()
      storming.abort()
      await Promise.all(storm)
      expect(notified).toBeGreaterThan(3_000)
      // The sessions tell their numbers when they are idle for a moment.
      await delay(1_200)
      const after = await statistics()
      expect(after.rounds - before.rounds).toBeLessThan(notified / 10)
      // Each look at the events asks the index once for each bucket.
      expect((after.looks - before.looks) / 64).toBeLessThan(notified / 10)
      await ledger.untilDelivered()
      await ledger.write(10)
      expect(await delivery()).toBeLessThan(3_000)
      await relay.stop()
      await expectWhole(ledger, database)
      expect(relay.events('relay.lease_lost')).toEqual([])
    },
  )

  test('without its listener for long: polling delivers, and the listener comes back', async () => {
    const relay = await startRelay()
    let kills = 0
    const stopping = new AbortController()
    const killing = (async () => {
      for (; !stopping.signal.aborted; await delay(20))
        kills += (await terminate(database, 'waybill listen')).length
    })()
    onTestFinished(() => stopping.abort())
    await relay.until('listener.down')
    const waits: number[] = []
    for (const end = performance.now() + 4_000; performance.now() < end; await delay(100)) {
      await ledger.write(5)
      waits.push(await delivery())
    }
    // It polls every second.
    expect(Math.max(...waits)).toBeLessThan(3_000)
    stopping.abort()
    await killing
    expect(kills).toBeGreaterThan(3)
    await relay.until('listener.up', (_, all) => all.length >= 2)
    await untilAsleep(database)
    await ledger.write(5)
    expect(await delivery()).toBeLessThan(2_000)
    await relay.stop()
    await expectWhole(ledger, database)
  })

  test('of a relay whose word that it sleeps was lost with its sessions: it says so again', async () => {
    const relay = await startRelay()
    await ledger.write(5)
    await ledger.untilDelivered()
    for (let round = 0; round < 3; round++) {
      await untilAsleep(database)
      // As a crash of the server leaves it, which forgets what it was not to wait for.
      await database.query('UPDATE "waybill".outbox_relays SET asleep_until = NULL')
      // All at once: a listener that is back before the reader is gone would find nothing wrong.
      await database.query(
        `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
         WHERE datname = current_database() AND application_name = ANY ($1)`,
        [relaySessions],
      )
      const at = performance.now()
      await untilAsleep(database)
      expect(performance.now() - at).toBeLessThan(4_000)
      await ledger.write(5)
      expect(await delivery()).toBeLessThan(2_000)
    }
    await relay.stop()
    await expectWhole(ledger, database)
  })

  test.for(['REPEATABLE READ', 'SERIALIZABLE'])(
    'by a writer in %s whose snapshot is older than the sleep: its commit wakes the relay all the same',
    async (level) => {
      const waits: number[] = []
      for (let round = 0; round < 3; round++) {
        let relay: TestRelay | undefined
        await ledger.write(3, {
          // No relay is there when the snapshot is taken, and so none that sleeps.
          first: `SET TRANSACTION ISOLATION LEVEL ${level}; SELECT FROM "waybill".outbox_relays`,
          async meanwhile() {
            relay = await startRelay()
            await untilAsleep(database)
          },
        })
        waits.push(await delivery())
        await relay!.stop()
      }
      expect(Math.max(...waits)).toBeLessThan(2_000)
      await expectWhole(ledger, database)
    },
  )
})
