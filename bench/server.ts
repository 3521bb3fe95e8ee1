import { readFileSync, readdirSync } from 'node:fs'
import { totalmem } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { type PostgresServer, startPostgres } from '../scripts/embedded-postgres.ts'
import { findServer } from './tools.ts'

/** A server for one part of the benchmark. */
export interface BenchServer {
  readonly server: PostgresServer
  /** What it was started with, beside PostgreSQL's defaults. */
  readonly settings: Record<string, string | number>
  /** Makes a database: empty, or a copy of the files of another, which nobody may be connected to. */
  createDatabase(name: string, template?: string): Promise<BenchDatabase>
  /** Milliseconds of CPU that the server has used so far; null where /proc does not tell. Waits for sessions to end. */
  cpuMs(): Promise<number | null>
  stop(): Promise<void>
}

export interface BenchDatabase {
  readonly url: string
  readonly client: pg.Client
  query<Row = Record<string, unknown>>(sql: string, values?: unknown[]): Promise<Row[]>
  connect(): Promise<pg.Client>
  /** Ends the connections that were made here. */
  close(): Promise<void>
  drop(): Promise<void>
}

/**
 * As a careful administrator would set it on this machine. fsync and synchronous_commit stay on. Autovacuum is off, so that
 * it does not fall into one round and not into another: what it would do is done before each measurement.
 */
export function serverSettings(more: Record<string, string | number> = {}): Record<string, string | number> {
  const quarter = Math.floor(totalmem() / 4 / 2 ** 20)
  return {
    shared_buffers: `${Math.min(2048, quarter)}MB`,
    max_wal_size: '8GB',
    checkpoint_timeout: '30min',
    autovacuum: 'off',
    fsync: 'on',
    synchronous_commit: 'on',
    wal_level: 'replica',
    track_commit_timestamp: 'off',
    ...more,
  }
}

const running = new Set<PostgresServer>()
let version: string | undefined
let closed = false

/** Of the servers that were started, or undefined when none was. */
export function serverVersion(): string | undefined {
  return version
}

/** Stops whatever runs; nothing is started any more. */
export async function stopServers(): Promise<void> {
  closed = true
  await Promise.all([...running].map((server) => server.stop()))
}

export async function startBenchServer(more: Record<string, string | number> = {}): Promise<BenchServer> {
  const settings = serverSettings(more)
  if (closed) throw new Error('the benchmark stops')
  const server = await startPostgres({ settings, ...findServer() })
  running.add(server)
  const admin = await connectTo(server.url)
  const databases = new Set<BenchDatabase>()
  const { rows } = await admin.query<{ version: string }>(
    `SELECT current_setting('server_version') AS version`,
  )
  version = rows[0]!.version

  async function open(name: string): Promise<BenchDatabase> {
    const url = server.url.replace(/\/postgres$/, `/${name}`)
    const clients: pg.Client[] = []
    async function connect(): Promise<pg.Client> {
      const made = await connectTo(url)
      clients.push(made)
      return made
    }
    const client = await connect()
    const database: BenchDatabase = {
      url,
      client,
      query: async (sql, values = []) => (await client.query(sql, values)).rows as never,
      connect,
      async close() {
        await Promise.all(clients.splice(0).map((mine) => mine.end().catch(() => undefined)))
        databases.delete(database)
      },
      async drop() {
        await database.close()
        await admin.query(`DROP DATABASE ${name} WITH (FORCE)`)
      },
    }
    databases.add(database)
    return database
  }

  return {
    server,
    settings,
    async createDatabase(name, template) {
      const from = template === undefined ? '' : ` TEMPLATE ${template} STRATEGY file_copy`
      await admin.query(`CREATE DATABASE ${name}${from}`)
      return open(name)
    },
    async cpuMs() {
      // A session that ends between two looks of one reading is in neither: read until nothing changes.
      let last = cpuOfTree(server.pid)
      for (let tries = 0; tries < 20; tries++) {
        await sleep(20)
        const now = cpuOfTree(server.pid)
        if (now === last) return now
        last = now
      }
      return last
    },
    async stop() {
      await Promise.all([...databases].map((database) => database.close()))
      await admin.end().catch(() => undefined)
      await server.stop()
      running.delete(server)
    },
  }
}

async function connectTo(url: string): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: url })
  // A server that is stopped tells its sessions so.
  client.on('error', () => undefined)
  await client.connect()
  return client
}

/** CPU of a postmaster, of its children, and of those that have ended. Linux counts in hundredths of a second. */
function cpuOfTree(postmaster: number): number | null {
  try {
    let ticks = 0
    for (const pid of readdirSync('/proc').filter((name) => /^\d+$/.test(name))) {
      const stat = statOf(pid)
      if (stat === undefined) continue
      const isPostmaster = Number(pid) === postmaster
      if (!isPostmaster && stat.parent !== postmaster) continue
      ticks += stat.own + (isPostmaster ? stat.ended : 0)
    }
    return ticks * 10
  } catch {
    return null
  }
}

function statOf(pid: string): { parent: number; own: number; ended: number } | undefined {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'utf8')
    const fields = text.slice(text.lastIndexOf(')') + 2).split(' ')
    const ticks = (index: number) => Number(fields[index])
    return { parent: ticks(1), own: ticks(11) + ticks(12), ended: ticks(13) + ticks(14) }
  } catch {
    return undefined // ended meanwhile
  }
}
