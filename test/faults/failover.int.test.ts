import pg from 'pg'
import { beforeEach, describe, expect, test } from 'vitest'
import type { PostgresServer } from '../../scripts/embedded-postgres.ts'
import { type TestRelay, testRelay } from '../relay/harness.ts'
import { type Ledger, type Writers, createLedger } from '../support/ledger.ts'
import { createTestDatabase, startTestServer } from '../support/postgres.ts'
import { type TcpProxy, createProxy } from '../support/proxy.ts'
import { type Standby, startStandby } from '../support/standby.ts'
import { eventually, expectWhole, ledgerBroker, readSessions, relaySessions } from './kit.ts'

interface Cluster {
  primary: PostgresServer
  standby: Standby
  proxy: TcpProxy
  /** Through the proxy. */
  url: string
  ledger: Ledger
  on(server: PostgresServer): { rows: (sql: string, values?: unknown[]) => Promise<never> }
}

let cluster: Cluster
beforeEach(async () => {
  const primary = await startTestServer()
  const database = await createTestDatabase({ server: primary })
  const standby = await startStandby(primary)
  const proxy = await createProxy(primary.port)
  const address = (port: number): string => {
    const url = new URL(database.url)
    url.port = String(port)
    return url.href
  }
  cluster = {
    ...{ primary, standby, proxy },
    url: address(proxy.port),
    ledger: await createLedger({ schema: database.schema, url: address(proxy.port) }),
    on: (server) => ({
      async rows(sql, values) {
        const client = new pg.Client({ connectionString: address(server.port) })
        await client.connect()
        try {
          return (await client.query(sql, values)).rows as never
        } finally {
          await client.end()
        }
      },
    }),
  }
})

async function startWork(wakeup: 'auto' | 'poll' = 'auto'): Promise<{ relay: TestRelay; writers: Writers }> {
  const { ledger, url } = cluster
  const relay = testRelay(
    { url, schema: 'waybill' },
    { destinations: { bus: ledgerBroker(ledger, { takesMs: 2 }) }, wakeup },
  )
  await relay.start()
  const writers = ledger.startWriters()
  await ledger.untilArrivals(50)
  return { relay, writers }
}

/** From now on the sessions of the old primary answer 25006 to whatever writes, and none of them is ended. */
async function makeReadOnly(): Promise<void> {
  const { primary, on } = cluster
  await on(primary).rows('ALTER SYSTEM SET default_transaction_read_only = on')
  await on(primary).rows('SELECT pg_reload_conf()')
  await eventually('the old primary refuses writes', () =>
    on(primary)
      .rows('CREATE TABLE too_late ()')
      .then(
        () => false,
        (error: { code?: string }) => error.code === '25006',
      ),
  )
}

async function failOver(): Promise<number> {
  const { standby, proxy } = cluster
  await standby.caughtUp()
  await standby.promote()
  proxy.retarget(standby.port)
  return performance.now()
}

const sessionsOn = async (server: PostgresServer): Promise<string[]> =>
  (await readSessions(cluster.on(server))).map(({ name }) => name)

/** Resolves when none of the relay's sessions is with the old primary, and these are with the new one. */
async function untilMoved(expected: readonly string[]): Promise<void> {
  const { primary, standby } = cluster
  await eventually('no session stays', async () => (await sessionsOn(primary)).length === 0)
  await eventually('every session is with the new primary', async () => {
    const there = await sessionsOn(standby)
    return expected.every((name) => there.includes(name))
  })
}

describe('after a failover to the standby', () => {
  test.for(['auto', 'poll'] as const)(
    'with the old primary still there, read-only (wakeup %s): every session is with the new one within 10 s',
    { timeout: 60_000 },
    async (wakeup) => {
      const { primary, standby, ledger, on } = cluster
      const expected = relaySessions.filter((name) => wakeup === 'auto' || name !== 'waybill listen')
      const { relay, writers } = await startWork(wakeup)
      expect(await sessionsOn(primary)).toEqual(expected)
      await makeReadOnly()
      const at = await failOver()
      await untilMoved(expected)
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
      await makeReadOnly()
      const at = await failOver()
      // Nobody marks anything: that session comes with the first mark.
      await untilMoved(relaySessions.filter((name) => name !== 'waybill mark'))
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
      const { primary, proxy, standby, ledger, on } = cluster
      const { relay, writers } = await startWork()
      const committed = writers.committed
      await primary.kill('SIGKILL')
      await standby.promote()
      proxy.retarget(standby.port)
      const at = performance.now()
      await ledger.untilArrivals(50)
      expect(performance.now() - at).toBeLessThan(10_000)
      await writers.stop()
      await ledger.untilDelivered()
      expect(writers.committed).toBeGreaterThan(committed)
      await eventually('every session is with the new primary', async () => {
        const there = await sessionsOn(standby)
        return relaySessions.every((name) => there.includes(name))
      })
      await relay.stop()
      await expectWhole(ledger, on(standby))
    },
  )
})
