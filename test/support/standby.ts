import { chownSync, cpSync, mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import pg from 'pg'
import { type PostgresServer, startPostgres } from '../../scripts/embedded-postgres.ts'
import { serverAccount } from '../../scripts/embedded-postgres/binaries.ts'
import { clearLeftovers, makeFolder, runningServer } from '../../scripts/embedded-postgres/leftovers.ts'
import { atEndOfFile } from './cleanups.ts'

export interface Standby extends PostgresServer {
  /** Resolves when everything that the primary has written is replayed here. */
  caughtUp(): Promise<void>
  /** Makes it the primary; resolves when it takes writes. */
  promote(): Promise<void>
}

const prefix = 'waybill-standby-'

/**
 * A hot standby of a running server. A base backup made by copying the files between the start and the stop
 * of a backup, since the embedded binaries have no pg_basebackup. With `synchronous`, the primary acknowledges a
 * commit only when the standby has it: then a failover loses nothing.
 */
export async function startStandby(
  primary: PostgresServer,
  { synchronous = true }: { synchronous?: boolean } = {},
): Promise<Standby> {
  await clearLeftovers(prefix, (folder) => [runningServer(join(folder, 'data')) ?? []].flat())
  const folder = makeFolder(prefix)
  atEndOfFile(() => rmSync(folder, { recursive: true, force: true }))
  const dataDirectory = join(folder, 'data')
  const backup = backupStatements(primary.major)
  await withClient(primary.url, async (client) => {
    await client.query(backup.start)
    copyData(primary.dataDirectory, dataDirectory)
    const { rows } = await client.query<{ labelfile: string }>(backup.stop)
    writeFileSync(join(dataDirectory, 'backup_label'), rows[0]!.labelfile)
  })
  writeFileSync(join(dataDirectory, 'standby.signal'), '')
  own(dataDirectory)
  const { username, password, hostname, port } = new URL(primary.url)
  const server = await startPostgres({
    major: primary.major,
    dataDirectory,
    settings: {
      primary_conninfo: `host=${hostname} port=${port} user=${username} password=${password} application_name=standby`,
      wal_retrieve_retry_interval: '100ms',
    },
  })
  atEndOfFile(() => server.stop())
  if (synchronous) {
    await withClient(primary.url, async (client) => {
      await client.query(`ALTER SYSTEM SET synchronous_standby_names = 'standby'`)
      await client.query('SELECT pg_reload_conf()')
    })
  }
  const url = new URL(server.url)
  url.password = password
  return {
    ...server,
    get pid() {
      return server.pid
    },
    url: url.href,
    async caughtUp() {
      const { rows } = await withClient(primary.url, (client) =>
        client.query<{ lsn: string }>('SELECT pg_current_wal_flush_lsn()::text AS lsn'),
      )
      await withClient(url.href, (client) => until(client, `pg_last_wal_replay_lsn() >= '${rows[0]!.lsn}'`))
    },
    promote: () =>
      withClient(url.href, async (client) => {
        await client.query('SELECT pg_promote()')
        await until(client, `NOT pg_is_in_recovery()`)
        // What it took over from the primary: alone it would wait for a standby that will not come.
        await client.query(`ALTER SYSTEM RESET synchronous_standby_names`)
        await client.query('SELECT pg_reload_conf()')
      }),
  }
}

/** PostgreSQL 14 has another kind of backup beside this one, and both under other names. */
function backupStatements(major: number): { start: string; stop: string } {
  return major < 15
    ? {
        start: `SELECT pg_start_backup('standby', fast => true, exclusive => false)`,
        stop: 'SELECT labelfile FROM pg_stop_backup(exclusive => false, wait_for_archive => false)',
      }
    : {
        start: `SELECT pg_backup_start('standby', fast => true)`,
        stop: 'SELECT labelfile FROM pg_backup_stop(wait_for_archive => false)',
      }
}

/** Not the files of a running server, nor what belongs to its own WAL: the standby fetches that. */
const leftOut = new Set(['postmaster.pid', 'postmaster.opts', 'owner.pid', 'postgresql.auto.conf'])
const emptied = new Set([
  'pg_wal',
  'pg_replslot',
  'pg_stat_tmp',
  'pg_dynshmem',
  'pg_notify',
  'pg_serial',
  'pg_snapshots',
  'pg_subtrans',
])

function copyData(from: string, to: string): void {
  for (let attempt = 1; ; attempt++) {
    try {
      cpSync(from, to, {
        recursive: true,
        filter: (source) => {
          const parent = join(source, '..')
          return !(parent === from
            ? leftOut.has(basename(source))
            : emptied.has(basename(parent)) && join(parent, '..') === from)
        },
      })
      break
    } catch (error) {
      // A file may go while the server works: that is what the backup's WAL makes good.
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT' || attempt === 5) throw error
    }
  }
  writeFileSync(join(to, 'postgresql.auto.conf'), '')
  mkdirSync(join(to, 'pg_wal', 'archive_status'), { recursive: true, mode: 0o700 })
  mkdirSync(join(to, 'pg_wal', 'summaries'), { recursive: true, mode: 0o700 })
}

function own(folder: string): void {
  const { uid, gid } = serverAccount
  if (uid === undefined) return
  for (const path of ['', ...readdirSync(folder, { recursive: true, encoding: 'utf8' })])
    chownSync(join(folder, path), uid, gid!)
}

async function withClient<T>(url: string, use: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client({ connectionString: url })
  client.on('error', () => undefined)
  await client.connect()
  try {
    return await use(client)
  } finally {
    await client.end()
  }
}

async function until(client: pg.Client, condition: string): Promise<void> {
  while (!(await client.query<{ done: boolean }>(`SELECT ${condition} AS done`)).rows[0]!.done)
    await client.query('SELECT pg_sleep(0.02)')
}
