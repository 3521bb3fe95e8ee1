import { beforeEach, describe, expect, test } from 'vitest'
import { type TestRelay, testRelay } from '../relay/harness.ts'
import type { Writers } from '../support/ledger.ts'
import { type Cluster, startCluster, untilMoved } from './cluster.ts'
import { eventually, expectWhole, ledgerBroker, relaySessions } from './kit.ts'

let cluster: Cluster
beforeEach(async () => {
  cluster = await startCluster()
})

async function startWork(wakeup: 'auto' | 'poll' = 'auto'): Promise<{ relay: TestRelay; writers: Writers }> {
  const { ledger } = cluster
  const relay = testRelay(cluster, {
    destinations: { bus: ledgerBroker(ledger, { takesMs: 2 }) },
    wakeup,
  })
  await relay.start()
  const writers = ledger.startWriters()
  await ledger.untilArrivals(50)
  return { relay, writers }
}

describe('after a failover to the standby', () => {
  test.for(['auto', 'poll'] as const)(
    'with the old primary still there, read-only (wakeup %s): every session is with the new one within 10 s',
    { timeout: 60_000 },
    async (wakeup) => {
      const { primary, standby, ledger, on } = cluster
      const expected = relaySessions.filter((name) => wakeup === 'auto' || name !== 'waybill listen')
      const { relay, writers } = await startWork(wakeup)
      expect(await cluster.sessions(primary)).toEqual(expected)
      await cluster.makeReadOnly()
      const at = await cluster.failOver()
      await untilMoved(cluster, expected)
      expect(performance.now() - at).toBeLessThan(10_000)
      await ledger.untilArrivals(50)
      expect(await on(primary).rows('SELECT 1 AS alive')).toEqual([{ alive: 1 }])
      await writers.stop()
      await ledger.untilDelivered()
      await relay.stop()
      await expectWhole(ledger, on(standby))
      expect(relay.events('event.failed')).toEqual([])
    },
  )

  test(
    'an idle relay, of which no session writes but one, comes over as well',
    { timeout: 60_000 },
    async () => {
      const { ledger, on, standby } = cluster
      const { relay, writers } = await startWork()
      await writers.stop()
      await ledger.untilDelivered()
      await cluster.makeReadOnly()
      const at = await cluster.failOver()
      // Nobody marks anything: that session comes with the first mark.
      await untilMoved(
        cluster,
        relaySessions.filter((name) => name !== 'waybill mark'),
      )
      expect(performance.now() - at).toBeLessThan(10_000)
      await ledger.write(20)
      await ledger.untilDelivered()
      await relay.stop()
      await expectWhole(ledger, on(standby))
    },
  )

  test(
    'whose primary dies in the middle of the work: nothing that was acknowledged is lost',
    { timeout: 60_000 },
    async () => {
      const { standby, ledger, on } = cluster
      const { relay, writers } = await startWork()
      const committed = writers.committed
      await cluster.crash()
      const at = performance.now()
      await ledger.untilArrivals(50)
      expect(performance.now() - at).toBeLessThan(10_000)
      await writers.stop()
      await ledger.untilDelivered()
      expect(writers.committed).toBeGreaterThan(committed)
      await eventually('every session is with the new primary', async () => {
        const there = await cluster.sessions(standby)
        return relaySessions.every((name) => there.includes(name))
      })
      await relay.stop()
      await expectWhole(ledger, on(standby))
    },
  )
})
