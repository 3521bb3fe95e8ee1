import { chownSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import pg from 'pg'
import { serverAccount } from '../../scripts/embedded-postgres/binaries.ts'
import { freePort } from '../../scripts/embedded-postgres.ts'
import { clearLeftovers, makeFolder } from '../../scripts/embedded-postgres/leftovers.ts'
import { commandLine, isAlive } from '../../scripts/embedded-postgres/processes.ts'
import { readFileSync, existsSync } from 'node:fs'
import { atEndOfFile } from './cleanups.ts'
import { startProcess } from './processes.ts'
import { findPgbouncer } from './programs.ts'

export interface Pgbouncer {
  readonly port: number
  /** A database's address with the pooler in between. */
  through(url: string): string
  /** Asks the pooler's own console, for example `SHOW SERVERS`. */
  console(command: string): Promise<Record<string, unknown>[]>
  /** Done by itself at the end of the test file. */
  stop(): Promise<void>
}

const prefix = 'waybill-pgbouncer-'

/**
 * A PgBouncer in transaction mode before the server of `url`, on a free port of 127.0.0.1, with Debian's program
 * and settings as near to its defaults as can be. Guard with `describeWith('pgbouncer', …)`.
 */
export async function startPgbouncer(
  url: string,
  settings: Record<string, string | number> = {},
): Promise<Pgbouncer> {
  const program = findPgbouncer()
  if (program === undefined) throw new Error('pgbouncer is not installed')
  await clearLeftovers(prefix, recordedProcess)
  const folder = makeFolder(prefix)
  const server = new URL(url)
  const port = await freePort()
  const users = join(folder, 'users.txt')
  write(users, `"${server.username}" "${decodeURIComponent(server.password)}"\n`)
  const file = join(folder, 'pgbouncer.ini')
  const all = {
    listen_addr: '127.0.0.1',
    listen_port: port,
    unix_socket_dir: '',
    auth_type: 'trust',
    auth_file: users,
    admin_users: server.username,
    pool_mode: 'transaction',
    // It refuses to run as root.
    ...(serverAccount.uid === undefined ? {} : { user: 'nobody' }),
    ...settings,
  }
  write(
    file,
    [
      '[databases]',
      `* = host=${server.hostname} port=${server.port}`,
      '[pgbouncer]',
      ...Object.entries(all).map(([name, value]) => `${name} = ${value}`),
      '',
    ].join('\n'),
  )
  const pooler = startProcess(program, [file])
  writeFileSync(join(folder, 'process'), String(pooler.pid))
  const stop = async (): Promise<void> => {
    await pooler.kill()
    rmSync(folder, { recursive: true, force: true })
  }
  atEndOfFile(stop)
  await pooler.line(/process up: PgBouncer/)
  const through = (address: string): string => {
    const pooled = new URL(address)
    pooled.host = `127.0.0.1:${port}`
    return pooled.href
  }
  return {
    port,
    through,
    async console(command) {
      const address = new URL(through(url))
      address.pathname = '/pgbouncer'
      const client = new pg.Client({ connectionString: address.href })
      await client.connect()
      try {
        return (await client.query<Record<string, unknown>>(command)).rows
      } finally {
        await client.end()
      }
    },
    stop,
  }
}

function write(file: string, text: string): void {
  writeFileSync(file, text, { mode: 0o600 })
  if (serverAccount.uid !== undefined) chownSync(file, serverAccount.uid, serverAccount.gid!)
}

function recordedProcess(folder: string): number[] {
  const file = join(folder, 'process')
  const pid = existsSync(file) ? Number(readFileSync(file, 'utf8')) : 0
  return pid > 1 && isAlive(pid) && commandLine(pid).includes(folder) ? [pid] : []
}
