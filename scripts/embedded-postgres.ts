import { type ChildProcess, spawn } from 'node:child_process'
import { randomBytes, randomInt } from 'node:crypto'
import {
  chmodSync,
  chownSync,
  closeSync,
  existsSync,
  mkdirSync,
  openSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { createServer } from 'node:net'
import { join, resolve } from 'node:path'
import { bundledMajor, findBinaries, prepareBinaries, serverAccount } from './embedded-postgres/binaries.ts'
import {
  clearLeftovers,
  makeFolder,
  readOwner,
  runningServer,
  stopServer,
  writeOwner,
} from './embedded-postgres/leftovers.ts'
import { becomes, isAlive } from './embedded-postgres/processes.ts'

export { bundledMajor, findBinaries } from './embedded-postgres/binaries.ts'

export interface PostgresOptions {
  /** Default: a free one. */
  port?: number
  /** Settings of `postgresql.conf` that override ours, for example `{ wal_sender_timeout: '2s' }`. */
  settings?: Record<string, string | number>
  /** 14 to 18; other than 18 only after `npm ci` in test/postgres-majors. Default: 18. */
  major?: number
  /** A folder with `bin/postgres` and `bin/initdb` of that major. Default: what the npm package of the major has. */
  binaries?: string
  /** Kept after `stop`, and used again when it is there. Default: a temporary one, removed by `stop`. */
  dataDirectory?: string
}

export interface PostgresServer {
  /** Superuser, database `postgres`. Other roles may connect without a password. */
  readonly url: string
  readonly port: number
  /** Of the postmaster; another one after `restart`. */
  readonly pid: number
  readonly major: number
  readonly dataDirectory: string
  /** What the server wrote. */
  readonly logFile: string
  /** Sends a signal to the postmaster (SIGINT: fast stop, SIGQUIT: immediate) and, if it ends it, waits for the end. */
  kill(signal: NodeJS.Signals): Promise<void>
  /** Starts it again on the same port and data; stops it first (SIGINT) when it still runs. */
  restart(): Promise<void>
  /** Stops the server and removes a temporary data directory. Idempotent. */
  stop(): Promise<void>
}

const ours: Record<string, string | number> = {
  listen_addresses: '127.0.0.1',
  unix_socket_directories: '',
  fsync: 'on',
  wal_level: 'logical',
  track_commit_timestamp: 'on',
  max_connections: 200,
  max_prepared_transactions: 20,
  max_wal_senders: 20,
  max_replication_slots: 20,
  lc_messages: 'C',
}

const prefix = 'waybill-postgres-'

const endingSignals = new Set<NodeJS.Signals>(['SIGINT', 'SIGTERM', 'SIGQUIT', 'SIGKILL', 'SIGABRT'])

/**
 * Starts a real PostgreSQL from binaries in npm packages: no installation, no root, bound to 127.0.0.1.
 * Servers of earlier runs that were killed are found and stopped first.
 */
export async function startPostgres(options: PostgresOptions = {}): Promise<PostgresServer> {
  const major = options.major ?? bundledMajor
  const binaries = options.binaries ?? findBinaries(major)
  if (binaries === undefined) {
    const other =
      major === bundledMajor ? '' : ': run npm ci --prefix test/postgres-majors, which has 14 to 17'
    throw new Error(`there are no PostgreSQL ${major} binaries for this platform${other}`)
  }
  await clearLeftovers(prefix, (folder) => [runningServer(join(folder, 'data')) ?? []].flat())
  const folder = makeFolder(prefix)
  try {
    const native = prepareBinaries(binaries, folder)
    const dataDirectory = resolve(options.dataDirectory ?? join(folder, 'data'))
    const password = await prepareData(native, dataDirectory, folder)
    await takeOver(dataDirectory)
    return await launch({ ...options, major, native, folder, dataDirectory, password })
  } catch (error) {
    rmSync(folder, { recursive: true, force: true })
    throw error
  }
}

/** Stops the server that a killed process left on this data directory; refuses when that process is alive. */
async function takeOver(dataDirectory: string): Promise<void> {
  const stale = runningServer(dataDirectory)
  if (stale !== undefined) {
    const owner = readOwner(dataDirectory)
    if (owner !== undefined && isAlive(owner)) {
      throw new Error(`process ${owner} runs a PostgreSQL on ${dataDirectory} already: stop it first`)
    }
    await stopServer(stale)
  }
  writeOwner(dataDirectory)
}

/** Makes the cluster unless it is there, and returns the superuser's password. */
async function prepareData(native: string, dataDirectory: string, scratch: string): Promise<string> {
  const passwordFile = join(dataDirectory, 'superuser.password')
  if (existsSync(passwordFile)) return readFileSync(passwordFile, 'utf8')
  const { uid, gid } = serverAccount
  mkdirSync(dataDirectory, { recursive: true, mode: 0o755 })
  chmodSync(dataDirectory, 0o700)
  if (uid !== undefined) chownSync(dataDirectory, uid, gid!)
  const password = randomBytes(12).toString('hex')
  const input = join(scratch, 'initial-password')
  writeFileSync(input, password, { mode: 0o600 })
  if (uid !== undefined) chownSync(input, uid, gid!)
  try {
    await runInitdb(native, dataDirectory, input)
  } finally {
    rmSync(input, { force: true })
  }
  // Only the superuser needs a password: roles that tests make log in by name.
  const access = ['all all 127.0.0.1/32 trust', 'replication all 127.0.0.1/32 trust']
  const superuser = access.map((line) =>
    line.replace(' all 127', ' postgres 127').replace('trust', 'scram-sha-256'),
  )
  writeFileSync(
    join(dataDirectory, 'pg_hba.conf'),
    [...superuser, ...access].map((line) => `host ${line}\n`).join(''),
  )
  writeFileSync(passwordFile, password, { mode: 0o600 })
  if (uid !== undefined) chownSync(passwordFile, uid, gid!)
  return password
}

async function runInitdb(native: string, dataDirectory: string, passwordFile: string): Promise<void> {
  const child = spawn(
    join(native, 'bin', 'initdb'),
    ['-D', dataDirectory, '-U', 'postgres', '-A', 'scram-sha-256', '--pwfile', passwordFile].concat([
      '--encoding',
      'UTF8',
      '--locale',
      'C',
      '--no-sync',
      '--no-instructions',
    ]),
    { cwd: '/', stdio: ['ignore', 'pipe', 'pipe'], ...serverAccount },
  )
  let output = ''
  child.stdout.on('data', (chunk) => (output += String(chunk)))
  child.stderr.on('data', (chunk) => (output += String(chunk)))
  const code = await new Promise((done, fail) => child.on('error', fail).on('close', done))
  if (code !== 0) throw new Error(`initdb failed: ${output}`)
}

interface Launch extends PostgresOptions {
  major: number
  native: string
  folder: string
  dataDirectory: string
  password: string
}

async function launch({
  native,
  folder,
  dataDirectory,
  password,
  major,
  ...options
}: Launch): Promise<PostgresServer> {
  const logFile = join(folder, 'server.log')
  let port = options.port ?? (await freePort())
  let child = await spawnServer()
  // A process that ends without stop() must not leave a server behind; what even this misses, the next start finds.
  const atExit = () => void child.kill('SIGQUIT')
  process.once('exit', atExit)

  async function spawnServer(): Promise<ChildProcess> {
    for (let attempt = 1; ; attempt++) {
      const started = await tryStart()
      if (typeof started !== 'string') return started
      // Children of a killed postmaster may live a moment longer; a free port may be taken by another.
      const passing = /pre-existing shared memory|lock file|could not (bind|create any TCP)/.test(started)
      if (!passing || attempt === 50)
        throw new Error(`PostgreSQL ${major} did not start: ${started.slice(-2000)}`)
      if (/could not bind/.test(started) && options.port === undefined) port = await freePort()
      await becomes(() => false, 100)
    }
  }

  /** The process once it accepts connections, or what it logged before it ended. */
  async function tryStart(): Promise<ChildProcess | string> {
    const settings = { ...ours, port, ...options.settings }
    const log = openSync(logFile, 'a')
    const before = readFileSync(logFile).length
    const process = spawn(
      join(native, 'bin', 'postgres'),
      [
        '-D',
        dataDirectory,
        ...Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`]),
      ],
      { cwd: '/', stdio: ['ignore', log, log], detached: true, ...serverAccount },
    )
    closeSync(log)
    process.unref()
    await new Promise<void>((done, fail) => process.once('spawn', done).once('error', fail))
    const ready = await becomes(() => process.exitCode !== null || isReady(process.pid!), 60_000)
    if (ready && process.exitCode === null) return process
    process.kill('SIGKILL')
    return readFileSync(logFile).subarray(before).toString() || 'no word from the server'
  }

  /** The last line of postmaster.pid holds the state, for pg_ctl and for us. */
  function isReady(pid: number): boolean {
    try {
      const lines = readFileSync(join(dataDirectory, 'postmaster.pid'), 'utf8').split('\n')
      return Number(lines[0]) === pid && lines[7]?.trim() === 'ready'
    } catch {
      return false
    }
  }

  async function kill(signal: NodeJS.Signals): Promise<void> {
    const mine = child
    if (mine.exitCode !== null || mine.signalCode !== null) return
    mine.ref()
    const ended = new Promise<void>((done) => mine.once('exit', () => done()))
    mine.kill(signal)
    if (endingSignals.has(signal)) await ended
    mine.unref()
  }

  return {
    url: `postgres://postgres:${password}@127.0.0.1:${port}/postgres`,
    port,
    major,
    dataDirectory,
    logFile,
    get pid() {
      return child.pid!
    },
    kill,
    async restart() {
      await kill('SIGINT')
      child = await spawnServer()
    },
    async stop() {
      // Data that is thrown away needs no last checkpoint.
      await kill(dataDirectory.startsWith(folder) ? 'SIGQUIT' : 'SIGINT')
      process.off('exit', atExit)
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

const givenPorts = new Set<number>()

/**
 * A TCP port of 127.0.0.1 that is free at this moment, and below those that systems give to outgoing connections (Linux:
 * from 32 768 on): one of those could take it while a server that uses it restarts.
 */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = randomInt(10_000, 32_768)
    if (givenPorts.has(port) || !(await isFree(port))) continue
    givenPorts.add(port)
    return port
  }
}

function isFree(port: number): Promise<boolean> {
  const server = createServer()
  return new Promise((resolve) => {
    server.once('error', () => resolve(false))
    server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)))
  })
}
