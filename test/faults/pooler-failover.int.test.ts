import { setTimeout as delay } from 'node:timers/promises'
import pg from 'pg'
import { expect, test } from 'vitest'
import type { Publisher } from '../../src/publishing/publisher.ts'
import { type TestRelay, testRelay } from '../relay/harness.ts'
import { type Pgbouncer, startPgbouncer } from '../support/pgbouncer.ts'
import { describeWith } from '../support/services.ts'
import { type Cluster, startCluster } from './cluster.ts'
import { eventually, expectWhole, ledgerBroker } from './kit.ts'

const numberOf = ([row]: readonly Record<string, any>[]): number => row!['n'] as number

const unmarked = 'SELECT count(*)::int AS n FROM "waybill".outbox_events WHERE processed_at IS NULL'

const asked = `SELECT count(*)::int AS n FROM pg_stat_activity
  WHERE application_name = 'waybill read' AND query LIKE '%outbox_events%' AND query_start > $1`

describeWith('pgbouncer', 'a failover behind PgBouncer in transaction mode', () => {
  interface Work extends Cluster {
    pooler: Pgbouncer
    relay: TestRelay
    /** Ids under which replays came. */
    replays: string[]
    /** Makes the pooler have so many sessions, the new ones with whatever server it finds now. */
    widen(sessions: number): Promise<void>
    /** Sessions that the pooler has with this server. */
    pooled(server: { port: number }): Promise<number>
  }

  /** A relay behind the pooler; writers go past it. */
  async function startWork(options: { synchronous?: boolean } = {}): Promise<Work> {
    const cluster = await startCluster(options)
    const { ledger } = cluster
    const began = new Date()
    const pooler = await startPgbouncer(cluster.url, {
      // Whoever asks twice is answered by two sessions.
      server_round_robin: 1,
      // Seconds until it connects again to a server that was away; 15 by default.
      server_login_retry: 1,
    })
    const url = pooler.through(cluster.url)
    const replays: string[] = []
    const broker = ledgerBroker(ledger, { takesMs: 2 })
    const bus: Publisher = {
      ...broker,
      publish(messages, call) {
        if (messages[0]!.replay === null) return broker.publish(messages, call)
        replays.push(messages[0]!.messageId)
        return Promise.resolve([{ status: 'published' }])
      },
    }
    const relay = testRelay({ url, schema: cluster.schema }, { destinations: { bus }, pollIntervalMs: 100 })
    await relay.start()
    await relay.until('relay.buckets', ({ owned }) => owned === 64)
    await relay.until('listener.pooled')
    const connect = async () => {
      const client = new pg.Client({ connectionString: url })
      await client.connect()
      await client.query('BEGIN')
      return client
    }
    return {
      ...{ ...cluster, pooler, relay, replays },
      async widen(sessions) {
        const clients = await Promise.all(Array.from({ length: sessions }, connect))
        await Promise.all(clients.map((client) => client.query('ROLLBACK')))
        await Promise.all(clients.map((client) => client.end()))
      },
      async pooled(server) {
        const sql = `SELECT count(*)::int AS n FROM pg_stat_activity
           WHERE datname = current_database() AND backend_type = 'client backend'
             AND pid <> pg_backend_pid() AND application_name <> 'ledger' AND backend_start > $1`
        return numberOf(await cluster.on(server).rows(sql, [began]))
      },
    }
  }

  test(
    'that leaves the old primary there, read-only, with sessions in the pool: nothing that it says is believed',
    { timeout: 90_000 },
    async () => {
      const { ledger, pooler, primary, standby, relay, replays, on, ...cluster } = await startWork()
      await ledger.write(1)
      await ledger.untilDelivered()
      const writers = ledger.startWriters()
      await cluster.widen(8)
      await ledger.untilArrivals(50)
      // Both will have it, due in a few seconds, and only the new one learns that it was sent.
      await on(primary).rows(
        `INSERT INTO "waybill".replays (event_id, number, requested_by, reason, retry_after)
         SELECT id, 1, 'a person', 'a test', clock_timestamp() + interval '4 seconds'
         FROM "waybill".outbox_events ORDER BY position LIMIT 1`,
      )
      await cluster.makeReadOnly()
      await cluster.failOver()
      await cluster.widen(16)
      // The fault is there: a pool with sessions of both, of which the old ones read and do not write.
      const since = new Date()
      await eventually(
        'the old primary is asked for events',
        async () => numberOf(await on(primary).rows(asked, [since])) > 0,
      )
      const both = await Promise.all([cluster.pooled(primary), cluster.pooled(standby)])
      expect(Math.min(...both)).toBeGreaterThanOrEqual(4)
      await ledger.untilArrivals(50, 40_000)
      await eventually('the replay is sent', async () => replays.length > 0)
      await delay(4_000)
      expect(replays).toHaveLength(1)
      // What whoever promotes has to tell the pooler; until then it is tried again and again.
      await pooler.console('RECONNECT')
      const at = performance.now()
      await eventually('no session stays with the old one', async () => (await cluster.pooled(primary)) === 0)
      await ledger.untilArrivals(50)
      expect(performance.now() - at).toBeLessThan(10_000)
      await writers.stop()
      await ledger.untilDelivered()
      await relay.stop()
      await expectWhole(ledger, on(standby))
    },
  )

  test(
    'whose primary dies in the middle of the work: nothing is lost or comes twice',
    { timeout: 60_000 },
    async () => {
      const { ledger, standby, relay, on, crash } = await startWork()
      const writers = ledger.startWriters()
      await ledger.untilArrivals(50)
      await crash()
      const at = performance.now()
      await ledger.untilArrivals(50)
      expect(performance.now() - at).toBeLessThan(10_000)
      await writers.stop()
      await ledger.untilDelivered()
      await relay.stop()
      await expectWhole(ledger, on(standby))
    },
  )

  test(
    'to a standby that was behind, which gives positions out again: what has them now is delivered in order',
    { timeout: 60_000 },
    async () => {
      const { ledger, pooler, primary, standby, proxy, relay, on, cutOff } = await startWork({
        synchronous: false,
      })
      await ledger.write(100)
      await ledger.untilDelivered()
      // Marks that the standby never had would be made again, and so would the deliveries.
      await eventually('all are marked', async () => numberOf(await on(primary).rows(unmarked, [])) === 0)
      await standby.caughtUp()
      await cutOff()
      // These are lost with the old primary.
      await ledger.write(200)
      await ledger.untilDelivered()
      const seen = async (server: { port: number }) =>
        numberOf(await on(server).rows('SELECT max(position)::int AS n FROM "waybill".outbox_events'))
      const before = await seen(primary)
      await pooler.console('PAUSE')
      await standby.promote()
      proxy.retarget(standby.port)
      await ledger.write(300)
      expect(await seen(standby)).toBeGreaterThan(before)
      const again = await on(standby).rows(`${unmarked} AND position <= $1`, [before])
      expect(numberOf(again)).toBeGreaterThan(50)
      await pooler.console('RECONNECT')
      await pooler.console('RESUME')
      const at = performance.now()
      await ledger.untilDelivered()
      expect(performance.now() - at).toBeLessThan(10_000)
      await relay.stop()
      // Those that the new primary never had were delivered before.
      expect(await ledger.verdict()).toMatchObject({ lost: 0, outOfOrder: 0, altered: 0, duplicates: 0 })
    },
  )
})
