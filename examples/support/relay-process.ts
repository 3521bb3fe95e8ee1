import { type ChildProcess, spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import { setTimeout as delay } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'

export interface RelayProcessOptions {
  /** Its configuration file. */
  configuration: string
  /** For the `${…}` of that file. */
  env: Record<string, string>
  /** A line of the relay's log. */
  onLog?: (line: LogLine) => void
  /** It ended although nobody stopped it; another one is started. */
  onDeath?: (death: Death) => void
}

/** A line of JSON; `event` names what happened. */
export interface LogLine {
  event?: string
  msg: string
  [field: string]: unknown
}

export interface Death {
  pid: number
  code: number | null
  signal: NodeJS.Signals | null
}

/** `waybill relay` as a child process, started again whenever it dies, as a service manager does. */
export interface RelayProcess {
  /** Of the one that runs now. */
  readonly pid: number
  readonly deaths: readonly Death[]
  /** Kills it the hard way and waits for its death. `hold` keeps it dead until `resume`. */
  kill(how?: { hold?: boolean }): Promise<Death>
  resume(): void
  /** Asks it to stop and waits until it has. Idempotent. */
  stop(): Promise<Death>
}

const restartPauseMs = 200

/** Resolves once the relay says that it works. */
export async function startRelay(options: RelayProcessOptions): Promise<RelayProcess> {
  const deaths: Death[] = []
  const lastLines: string[] = []
  let stopping = false
  let worked = false
  let held = false
  let child = launch()
  let ended = watch(child)
  const atExit = () => void child.kill('SIGKILL')
  process.once('exit', atExit)

  function launch(): ChildProcess {
    return spawn(
      process.execPath,
      [
        '--import',
        import.meta.resolve('tsx'),
        fileURLToPath(new URL('../../src/cli/main.ts', import.meta.url)),
        ...['relay', '--config', options.configuration],
      ],
      { env: { ...withoutSettings(process.env), ...options.env }, stdio: ['ignore', 'ignore', 'pipe'] },
    )
  }

  function watch(started: ChildProcess): Promise<Death> {
    createInterface(started.stderr!).on('line', (text) => {
      lastLines.splice(0, Math.max(0, lastLines.length - 9))
      lastLines.push(text)
      const line = parse(text)
      if (line.event === 'relay.started') worked = true
      options.onLog?.(line)
    })
    return new Promise((resolve, reject) => {
      started.once('error', reject)
      started.once('close', (code, signal) => {
        const death = { pid: started.pid!, code, signal }
        if (!stopping) void replace(death)
        resolve(death)
      })
    })
  }

  async function replace(death: Death): Promise<void> {
    deaths.push(death)
    options.onDeath?.(death)
    await delay(restartPauseMs)
    if (!held) restart()
  }

  function restart(): void {
    const isDead = child.exitCode !== null || child.signalCode !== null
    if (stopping || !isDead) return
    child = launch()
    ended = watch(child)
  }

  const relay: RelayProcess = {
    get pid() {
      return child.pid!
    },
    deaths,
    async kill({ hold = false } = {}) {
      held ||= hold
      child.kill('SIGKILL')
      return ended
    },
    resume() {
      if (held) restart()
      held = false
    },
    async stop() {
      stopping = true
      child.kill('SIGTERM')
      const death = await ended
      process.off('exit', atExit)
      return death
    },
  }
  while (!worked) {
    await delay(20)
    if (deaths.length === 0) continue
    await relay.stop()
    throw new Error(`the relay did not start:\n${lastLines.join('\n')}`)
  }
  return relay
}

/** The configuration of somebody's own outbox must not reach the demo's. */
function withoutSettings(environment: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(environment).filter(([name]) => !name.startsWith('WAYBILL_')))
}

function parse(text: string): LogLine {
  try {
    return JSON.parse(text) as LogLine
  } catch {
    return { msg: text }
  }
}
