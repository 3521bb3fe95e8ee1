import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { freePort } from '../../scripts/embedded-postgres.ts'
import { clearLeftovers, makeFolder } from '../../scripts/embedded-postgres/leftovers.ts'
import { commandLine, isAlive } from '../../scripts/embedded-postgres/processes.ts'
import { atEndOfFile } from './cleanups.ts'
import { type TestProcess, startProcess } from './processes.ts'

/** A server of one process with its data in a temporary folder. */
export interface LocalServer {
  readonly port: number
  /** Another one after `restart`; undefined while it is stopped. */
  readonly pid: number | undefined
  readonly folder: string
  /** SIGTERM stops it in order, SIGKILL at once, SIGSTOP and SIGCONT freeze and thaw it. Waits for an end. */
  kill(signal: NodeJS.Signals): Promise<void>
  /** Starts it again with the same port and data; stops it first when it still runs. */
  restart(): Promise<void>
  /** What it wrote since its start. */
  log(): readonly string[]
  /** Done by itself at the end of the test file. */
  stop(): Promise<void>
}

interface Place {
  folder: string
  port: number
}

export interface LocalServerOptions {
  /** Of the folder's name; tells the leftovers of one kind of server from those of others. */
  prefix: string
  program: string
  args: (place: Place) => readonly string[]
  /** A part of the running process's command line that no other process has: by it a later run recognises it. */
  sign: (place: Place) => string
  /** The line that says it takes connections. */
  ready: RegExp
}

/** Starts a server on a free port of 127.0.0.1, and first stops those whose test run was killed. */
export async function startLocalServer(options: LocalServerOptions): Promise<LocalServer> {
  const { prefix, program, ready } = options
  await clearLeftovers(prefix, recordedProcess)
  const folder = makeFolder(prefix)
  const port = await freePort()
  const args = options.args({ folder, port })
  let running: TestProcess | undefined

  async function start(): Promise<void> {
    const started = startProcess(program, args)
    writeFileSync(join(folder, 'process'), `${started.pid} ${options.sign({ folder, port })}`)
    running = started
    await started.line(ready)
  }

  async function kill(signal: NodeJS.Signals): Promise<void> {
    if (running === undefined) return
    running.signal(signal)
    if (signal !== 'SIGTERM' && signal !== 'SIGKILL') return
    await running.exit
    running = undefined
  }

  async function stop(): Promise<void> {
    await kill('SIGKILL')
    rmSync(folder, { recursive: true, force: true })
  }

  atEndOfFile(stop)
  await start()
  return {
    port,
    folder,
    get pid() {
      return running?.pid
    },
    kill,
    async restart() {
      await kill('SIGTERM')
      await start()
    },
    log: () => running?.lines ?? [],
    stop,
  }
}

function recordedProcess(folder: string): number[] {
  const file = join(folder, 'process')
  const [pid, ...sign] = existsSync(file) ? readFileSync(file, 'utf8').split(' ') : []
  if (pid === undefined) return []
  return isAlive(Number(pid)) && commandLine(Number(pid)).includes(sign.join(' ')) ? [Number(pid)] : []
}
