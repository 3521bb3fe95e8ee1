import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { appendFileSync, existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { freePort } from '../../scripts/embedded-postgres.ts'
import { clearLeftovers, makeFolder } from '../../scripts/embedded-postgres/leftovers.ts'
import { commandLine, isAlive } from '../../scripts/embedded-postgres/processes.ts'
import { atEndOfFile } from './cleanups.ts'
import { type TestProcess, startProcess } from './processes.ts'
import { findProgram, findRabbitmq } from './programs.ts'

export interface RabbitmqServer {
  readonly url: string
  readonly port: number
  /** Of the broker; another one after `restart`. Undefined while it is stopped. */
  readonly pid: number | undefined
  /** SIGTERM stops it in order, SIGKILL at once, SIGSTOP and SIGCONT freeze and thaw it. Waits for an end. */
  kill(signal: NodeJS.Signals): Promise<void>
  /** Starts it again with the same port and data; stops it first when it still runs. */
  restart(): Promise<void>
  /** Runs `rabbitmqctl` for this broker, for example `('set_vm_memory_high_watermark', '0.00001')`. */
  control(...args: string[]): Promise<string>
  /** What the broker wrote since its start. */
  log(): readonly string[]
  /** Done by itself at the end of the test file. */
  stop(): Promise<void>
}

const prefix = 'waybill-rabbitmq-'

/**
 * The address of a broker: WAYBILL_TEST_RABBITMQ_URL, or one started for this test file. Tests that stop or
 * restart the broker use {@link startRabbitmq}. Guard with `describeWith('rabbitmq', …)`.
 */
export async function rabbitmqUrl(): Promise<string> {
  return process.env['WAYBILL_TEST_RABBITMQ_URL'] ?? (await startRabbitmq()).url
}

/** A RabbitMQ of this test file's own on free ports of 127.0.0.1, with no plugin, its data in a temporary folder. */
export async function startRabbitmq(): Promise<RabbitmqServer> {
  const script = findRabbitmq()
  const epmdProgram = findProgram('epmd')
  if (script === undefined || epmdProgram === undefined)
    throw new Error('rabbitmq-server or epmd is not installed')
  await clearLeftovers(prefix, recordedProcesses)
  const folder = makeFolder(prefix)
  const [port, distributionPort, epmdPort] = [await freePort(), await freePort(), await freePort()]
  const environment = prepare({ folder, port, distributionPort, epmdPort })

  // RabbitMQ would start an epmd that nobody stops; this one is ours.
  const epmd = spawn(epmdProgram, ['-port', String(epmdPort), '-address', '127.0.0.1'], { stdio: 'ignore' })
  record(folder, epmd, `-port ${epmdPort}`)
  let broker: TestProcess | undefined

  async function start(): Promise<void> {
    // Without this variable the script stays in front of the broker and swallows signals.
    const started = startProcess(script!, ['-noinput'], {
      env: { ...environment, RABBITMQ_ALLOW_INPUT: 'true' },
    })
    record(folder, started, folder)
    broker = started
    await started.line(/Server startup complete/, { timeoutMs: 60_000 })
  }

  async function kill(signal: NodeJS.Signals): Promise<void> {
    if (broker === undefined) return
    broker.signal(signal)
    if (signal === 'SIGTERM' || signal === 'SIGKILL') {
      await broker.exit
      broker = undefined
    }
  }

  async function stop(): Promise<void> {
    await kill('SIGKILL')
    if (epmd.exitCode === null && epmd.signalCode === null) {
      const ended = new Promise((done) => epmd.once('exit', done))
      epmd.kill('SIGTERM')
      await ended
    }
    rmSync(folder, { recursive: true, force: true })
  }

  atEndOfFile(stop)
  await start()
  return {
    url: `amqp://guest:guest@127.0.0.1:${port}`,
    port,
    get pid() {
      return broker?.pid
    },
    kill,
    async restart() {
      await kill('SIGTERM')
      await start()
    },
    async control(...args) {
      const run = startProcess(join(dirname(script), 'rabbitmqctl'), args, { env: environment })
      const { code } = await run.exit
      if (code !== 0) throw new Error(`rabbitmqctl ${args.join(' ')} failed: ${run.stderr}${run.stdout}`)
      return run.stdout
    },
    stop,
    log: () => broker?.lines ?? [],
  }
}

interface Place {
  folder: string
  port: number
  distributionPort: number
  epmdPort: number
}

function prepare({ folder, port, distributionPort, epmdPort }: Place): Record<string, string> {
  const settings = [
    `listeners.tcp.1 = 127.0.0.1:${port}`,
    'vm_memory_high_watermark.absolute = 1GB',
    'disk_free_limit.absolute = 50MB',
  ]
  writeFileSync(join(folder, 'rabbitmq.conf'), settings.join('\n') + '\n')
  writeFileSync(join(folder, 'enabled_plugins'), '[].\n')
  writeFileSync(join(folder, 'environment.conf'), '')
  writeFileSync(join(folder, '.erlang.cookie'), randomBytes(16).toString('hex'), { mode: 0o400 })
  return {
    HOME: folder,
    ERL_EPMD_PORT: String(epmdPort),
    ERL_EPMD_ADDRESS: '127.0.0.1',
    RABBITMQ_NODENAME: `waybill-${port}@localhost`,
    RABBITMQ_CONF_ENV_FILE: join(folder, 'environment.conf'),
    RABBITMQ_CONFIG_FILE: join(folder, 'rabbitmq.conf'),
    RABBITMQ_ENABLED_PLUGINS_FILE: join(folder, 'enabled_plugins'),
    RABBITMQ_MNESIA_BASE: join(folder, 'mnesia'),
    RABBITMQ_LOG_BASE: join(folder, 'log'),
    RABBITMQ_LOGS: '-',
    RABBITMQ_DIST_PORT: String(distributionPort),
    RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS: '+S 2:2 -kernel inet_dist_use_interface {127,0,0,1}',
  }
}

/** Notes a process in the folder, so that the next run finds it should this one be killed. */
function record(folder: string, process: { pid?: number | undefined }, commandPart: string): void {
  appendFileSync(join(folder, 'processes'), `${process.pid} ${commandPart}\n`)
}

function recordedProcesses(folder: string): number[] {
  const file = join(folder, 'processes')
  const lines = existsSync(file) ? readFileSync(file, 'utf8').trim().split('\n') : []
  return lines.flatMap((line) => {
    const [pid, ...part] = line.split(' ')
    return isAlive(Number(pid)) && commandLine(Number(pid)).includes(part.join(' ')) ? [Number(pid)] : []
  })
}
