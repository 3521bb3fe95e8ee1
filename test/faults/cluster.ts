import pg from 'pg'
import type { PostgresServer } from '../../scripts/embedded-postgres.ts'
import { type Ledger, createLedger } from '../support/ledger.ts'
import { type TestDatabase, createTestDatabase, startTestServer } from '../support/postgres.ts'
import { type TcpProxy, createProxy } from '../support/proxy.ts'
import { type Standby, startStandby } from '../support/standby.ts'
import { eventually, readSessions } from './kit.ts'

type Rows = Pick<TestDatabase, 'rows'>

/** A migrated database on a primary with a standby (synchronous if not said otherwise), behind a proxy that leads to the primary. */
export interface Cluster {
  readonly primary: PostgresServer
  readonly standby: Standby
  readonly proxy: TcpProxy
  /** Through the proxy. */
  readonly url: string
  readonly schema: string
  readonly ledger: Ledger
  /** Runs SQL that is written for the schema `"waybill".`. */
  on(server: { readonly port: number }): Rows
  /** Names of Waybill's sessions with a server. */
  sessions(server: PostgresServer): Promise<string[]>
  /** From now on the primary answers 25006 to whatever writes, and ends no session. */
  makeReadOnly(): Promise<void>
  /** From now on the standby hears nothing of the primary. */
  cutOff(): Promise<void>
  /**
   * The machine of the primary dies, the standby is promoted, and new connections are led there. The network goes
   * first: the sessions of a server that is killed live a moment longer, and show what no standby has.
   */
  crash(): Promise<void>
  /** Promotes the standby, with all that the primary has, and leads new connections there. Answers when it did. */
  failOver(): Promise<number>
}

export async function startCluster({ synchronous = true } = {}): Promise<Cluster> {
  const primary = await startTestServer()
  const database = await createTestDatabase({ server: primary })
  const link = await createProxy(primary.port)
  const through = ({ port }: TcpProxy): string => {
    const url = new URL(primary.url)
    url.port = String(port)
    return url.href
  }
  const standby = await startStandby({ ...primary, url: through(link) }, { synchronous })
  const proxy = await createProxy(primary.port)
  const address = (port: number): string => {
    const url = new URL(database.url)
    url.port = String(port)
    return url.href
  }
  const on = (server: { readonly port: number }): Rows => ({
    async rows(text, values) {
      const client = new pg.Client({ connectionString: address(server.port) })
      await client.connect()
      try {
        return (await client.query(database.sql(text), values)).rows as never
      } finally {
        await client.end()
      }
    },
  })
  return {
    ...{ primary, standby, proxy, on },
    url: address(proxy.port),
    schema: database.schema,
    ledger: await createLedger({ schema: database.schema, url: address(proxy.port) }),
    sessions: async (server) => (await readSessions(on(server))).map(({ name }) => name),
    async makeReadOnly() {
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
      // Whoever was in the middle of writing would wait for the standby for ever once that is promoted.
      await eventually('nobody writes there any more', async () => {
        const [open] = await on(primary).rows<{ n: number }>(
          'SELECT count(*)::int AS n FROM pg_stat_activity WHERE backend_xid IS NOT NULL',
        )
        return open!.n === 0
      })
    },
    cutOff: () => link.down(),
    async crash() {
      await proxy.down()
      await primary.kill('SIGKILL')
      await standby.promote()
      proxy.retarget(standby.port)
      await proxy.up()
    },
    async failOver() {
      await standby.caughtUp()
      await standby.promote()
      proxy.retarget(standby.port)
      return performance.now()
    },
  }
}

/** Resolves when no session is with the old primary any more, and these are with the new one. */
export async function untilMoved(cluster: Cluster, expected: readonly string[]): Promise<void> {
  const { primary, standby } = cluster
  await eventually('no session stays', async () => (await cluster.sessions(primary)).length === 0)
  await eventually('every session is with the new primary', async () => {
    const there = await cluster.sessions(standby)
    return expected.every((name) => there.includes(name))
  })
}
