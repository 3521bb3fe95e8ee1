import { setTimeout as delay } from 'node:timers/promises'
import { beforeEach, describe, expect, test } from 'vitest'
import { type TestRelay, testRelay, untilAsleep } from '../relay/harness.ts'
import { type Ledger, createLedger } from '../support/ledger.ts'
import { type TestDatabase, createTestDatabase } from '../support/postgres.ts'
import {
  type BrokerOptions,
  type RelaySession,
  eventually,
  expectWhole,
  ledgerBroker,
  readSessions,
  relaySessions,
  terminate,
  terminating,
  untilWaiting,
  wake,
} from './kit.ts'
import { createRandom, repeat } from './fixtures/random.ts'

let database: TestDatabase
let ledger: Ledger
beforeEach(async () => {
  database = await createTestDatabase()
  ledger = await createLedger(database)
})

async function startRelay(broker: BrokerOptions = {}, leaseMs = 10_000): Promise<TestRelay> {
  const relay = testRelay(database, { destinations: { bus: ledgerBroker(ledger, broker) }, leaseMs })
  await relay.start()
  await relay.until('relay.buckets', ({ owned }) => owned === 64)
  await relay.until('listener.up')
  // The session of the marks is made with the first of them.
  await ledger.write(1)
  await eventually('all four sessions are there', async () => {
    const names = (await readSessions(database)).map(({ name }) => name)
    return relaySessions.every((name) => names.includes(name))
  })
  return relay
}

/** Runs while a transaction of the test holds a lock, and ends that transaction. */
async function holding(lock: string, meanwhile: () => Promise<void>): Promise<void> {
  const blocker = await database.connect()
  await blocker.query('BEGIN')
  await blocker.query(database.sql(lock))
  try {
    await meanwhile()
  } finally {
    await blocker.query('ROLLBACK')
  }
}

describe('a session that is terminated', () => {
  test(
    'at any moment of any kind, many times, while writers write: nothing is lost, nothing comes twice',
    { timeout: 30_000 * repeat },
    async () => {
      const random = createRandom()
      const relay = await startRelay({ takesMs: 2 }, 1_000)
      const writers = ledger.startWriters({ count: 4 })
      const killed = new Map<RelaySession, number>(relaySessions.map((name) => [name, 0]))
      for (let round = 0; round < 80 * repeat; round++) {
        await delay(random.between(0, 60))
        const name = relaySessions[round % 4]!
        killed.set(name, killed.get(name)! + (await terminate(database, name)).length)
      }
      for (const [name, count] of killed) expect(count, name).toBeGreaterThanOrEqual(5)
      await ledger.untilArrivals(50)
      await writers.stop()
      await ledger.untilDelivered()
      await relay.stop()
      await expectWhole(ledger, database)
      expect(relay.events('relay.lease_lost')).toEqual([])
    },
  )

  test.for(relaySessions)(
    'while it is idle (%s) is replaced, and the next event arrives at once',
    async (name) => {
      const relay = await startRelay()
      const before = (await readSessions(database)).find((session) => session.name === name)!
      await eventually(`${name} is idle`, async () =>
        (await readSessions(database)).some((session) => session.name === name && session.state === 'idle'),
      )
      expect(await terminate(database, name)).toEqual([before.pid])
      await ledger.write(20)
      const at = performance.now()
      await ledger.untilDelivered()
      // Far below the safety poll of five seconds.
      expect(performance.now() - at).toBeLessThan(3_000)
      await eventually(`${name} has a session again`, async () =>
        (await readSessions(database)).some((session) => session.name === name && session.pid !== before.pid),
      )
      await relay.stop()
      await expectWhole(ledger, database)
    },
  )

  test('while it listens: what was written before it listens again is looked for at once, many times', async () => {
    const relay = await startRelay()
    const waits: number[] = []
    for (let round = 0; round < 10; round++) {
      await untilAsleep(database)
      // The notification of this commit finds nobody.
      await ledger.write(1, { beforeCommit: terminating('waybill listen', { waitMs: 5_000 }) })
      const at = performance.now()
      await ledger.untilDelivered()
      waits.push(performance.now() - at)
    }
    expect(Math.max(...waits)).toBeLessThan(3_000)
    await relay.stop()
    await expectWhole(ledger, database)
  })

  test('while a mark waits in it: the same outcomes are marked by the next session, none is published again', async () => {
    const relay = await startRelay()
    const writers = ledger.startWriters()
    for (let round = 0; round < 5; round++) {
      // Marks share-lock the rows of their buckets; reads and writers touch none of them.
      await holding('SELECT FROM "waybill".outbox_buckets FOR UPDATE', async () => {
        const { pid } = await untilWaiting(database, 'waybill mark')
        expect(await terminate(database, 'waybill mark', { waiting: true })).toEqual([pid])
        await untilWaiting(database, 'waybill mark', pid)
      })
    }
    await writers.stop()
    await ledger.untilDelivered()
    await relay.stop()
    await expectWhole(ledger, database)
    expect(relay.events('relay.lease_lost')).toEqual([])
  })

  test('while it renews leases: they are renewed by the next session, no bucket is lost', async () => {
    const relay = await startRelay({}, 4_000)
    const writers = ledger.startWriters()
    for (let round = 0; round < 3; round++) {
      await holding('SELECT FROM "waybill".outbox_buckets FOR UPDATE', async () => {
        const { pid } = await untilWaiting(database, 'waybill leases')
        expect(await terminate(database, 'waybill leases', { waiting: true })).toEqual([pid])
      })
      await ledger.untilArrivals(20)
    }
    await writers.stop()
    await ledger.untilDelivered()
    await relay.stop()
    await expectWhole(ledger, database)
    expect(relay.events('relay.lease_lost')).toEqual([])
  })

  test('while it takes buckets: they are taken by the next session', async () => {
    const relay = testRelay(database, { destinations: { bus: ledgerBroker(ledger) } })
    const writers = ledger.startWriters()
    // The statement that takes buckets skips locked rows, but not a locked table.
    await holding('LOCK TABLE "waybill".outbox_buckets IN EXCLUSIVE MODE', async () => {
      await relay.start()
      const { pid } = await untilWaiting(database, 'waybill leases')
      expect(await terminate(database, 'waybill leases', { waiting: true })).toEqual([pid])
    })
    await relay.until('relay.buckets', ({ owned }) => owned === 64)
    await ledger.untilArrivals(20)
    await writers.stop()
    await ledger.untilDelivered()
    await relay.stop()
    await expectWhole(ledger, database)
  })

  test('while a read waits in it: the next session reads, nothing comes twice', async () => {
    const relay = await startRelay()
    const writers = ledger.startWriters()
    for (let round = 0; round < 3; round++) {
      await holding('LOCK TABLE "waybill".outbox_events IN ACCESS EXCLUSIVE MODE', async () => {
        // The writers, who would wake it, wait as well.
        await wake(database)
        const { pid } = await untilWaiting(database, 'waybill read')
        expect(await terminate(database, 'waybill read', { waiting: true })).toEqual([pid])
        await untilWaiting(database, 'waybill read', pid)
      })
      await ledger.untilArrivals(20)
    }
    await writers.stop()
    await ledger.untilDelivered()
    await relay.stop()
    await expectWhole(ledger, database)
  })
})
