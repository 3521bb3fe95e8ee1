import { describe, test } from 'vitest'
import { type TestRelay, testRelay } from '../relay/harness.ts'
import { type Ledger, createLedger } from '../support/ledger.ts'
import { type TestDatabase, createTestDatabase } from '../support/postgres.ts'
import { type TcpProxy, createProxy } from '../support/proxy.ts'
import { eventually, expectWhole, ledgerBroker, readSessions, relaySessions } from './kit.ts'

interface Work {
  database: TestDatabase
  proxy: TcpProxy
  ledger: Ledger
  relay: TestRelay
}

/** A relay whose sessions, and nobody else's, go through a proxy. */
async function startWork(): Promise<Work> {
  const database = await createTestDatabase()
  const ledger = await createLedger(database)
  const url = new URL(database.url)
  const proxy = await createProxy(Number(url.port))
  url.port = String(proxy.port)
  const relay = testRelay(
    { url: url.href, schema: database.schema },
    { destinations: { bus: ledgerBroker(ledger, { takesMs: 2 }) } },
  )
  await relay.start()
  await relay.until('relay.buckets', ({ owned }) => owned === 64)
  await relay.until('listener.up')
  await ledger.write(10)
  await ledger.untilDelivered()
  return { database, proxy, ledger, relay }
}

// They mostly wait: side by side they take as long as one.
describe.concurrent('a session that is half-open: what is sent is swallowed, and nobody says so', () => {
  test.for(relaySessions)(
    '%s, under load: noticed within 15 s, nothing lost, nothing twice',
    { timeout: 60_000 },
    async (name, { expect }) => {
      const { database, proxy, ledger, relay } = await startWork()
      const writers = ledger.startWriters({ count: 2 })
      await ledger.untilArrivals(20)
      const before = (await readSessions(database)).find((session) => session.name === name)!
      proxy.blackhole(true, name)
      const at = performance.now()
      // The server does not know that the old session is dead: the new one stands beside it.
      await eventually(
        'the session is replaced',
        async () =>
          (await readSessions(database)).some(
            (session) => session.name === name && session.pid !== before.pid,
          ),
        20_000,
      )
      const noticedAfter = performance.now() - at
      expect(noticedAfter).toBeLessThan(15_000)
      await ledger.untilArrivals(20)
      await writers.stop()
      await ledger.untilDelivered()
      await relay.stop()
      await expectWhole(ledger, database)
      // Noticed before the leases ran out.
      expect(relay.events('relay.lease_lost')).toEqual([])
    },
  )

  test(
    'the reader of a relay that sleeps: an event is delivered within 15 s all the same',
    { timeout: 60_000 },
    async ({ expect }) => {
      const { database, proxy, ledger, relay } = await startWork()
      proxy.blackhole(true, 'waybill read')
      const at = performance.now()
      await ledger.write(1)
      await ledger.untilDelivered(30_000)
      const after = performance.now() - at
      expect(after).toBeGreaterThan(1_000)
      expect(after).toBeLessThan(15_000)
      await relay.stop()
      await expectWhole(ledger, database)
    },
  )

  test(
    'the listener: what is written meanwhile does not wait for that to be noticed',
    { timeout: 60_000 },
    async ({ expect }) => {
      const { database, proxy, ledger, relay } = await startWork()
      proxy.blackhole(true, 'waybill listen')
      const at = performance.now()
      await ledger.write(1)
      await ledger.untilDelivered()
      // The safety poll of five seconds.
      expect(performance.now() - at).toBeLessThan(7_000)
      await relay.until('listener.down')
      expect(performance.now() - at).toBeLessThan(15_000)
      await relay.until('listener.up', (_, all) => all.length === 2)
      await relay.stop()
      await expectWhole(ledger, database)
    },
  )

  test(
    'all of them at once, for longer than the lease: the relay is not ready, and goes on when the network does',
    { timeout: 90_000 },
    async ({ expect }) => {
      const { database, proxy, ledger, relay } = await startWork()
      const writers = ledger.startWriters({ count: 2 })
      await ledger.untilArrivals(20)
      proxy.blackhole()
      const at = performance.now()
      await relay.until('database.down')
      expect(performance.now() - at).toBeLessThan(15_000)
      expect(relay.health()).toMatchObject({ live: true, ready: false })
      await eventually('the lease has run out', async () => performance.now() - at > 13_000, 20_000)
      const seen = ledger.arrivedAt.length
      proxy.blackhole(false)
      const back = performance.now()
      await ledger.untilArrivals(20, 30_000)
      expect(ledger.arrivedAt[seen]! - back).toBeLessThan(12_000)
      await writers.stop()
      await ledger.untilDelivered()
      await relay.stop()
      await expectWhole(ledger, database)
    },
  )

  test(
    'a relay whose network is silent stops within its grace time and a few seconds',
    { timeout: 60_000 },
    async ({ expect }) => {
      const { proxy, ledger, relay } = await startWork()
      const writers = ledger.startWriters({ count: 2 })
      await ledger.untilArrivals(20)
      proxy.blackhole()
      const at = performance.now()
      expect(await relay.stop({ graceMs: 1_000 })).toEqual({ clean: false })
      expect(performance.now() - at).toBeLessThan(10_000)
      await writers.stop()
    },
  )
})
