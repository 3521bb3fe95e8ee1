import { randomBytes } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { freePort } from '../../scripts/embedded-postgres.ts'
import { clearLeftovers, makeFolder } from '../../scripts/embedded-postgres/leftovers.ts'
import { commandLine, isAlive } from '../../scripts/embedded-postgres/processes.ts'
import { atEndOfFile } from './cleanups.ts'
import { type TestProcess, startProcess } from './processes.ts'
import { findKafka, findProgram } from './programs.ts'
import { type TcpProxy, createProxy } from './proxy.ts'

export interface KafkaOptions {
  /** Settings of the broker beside ours, for example `{ 'message.max.bytes': 10_000 }`. */
  settings?: Record<string, string | number>
  /** Further listeners: name and protocol, for example `{ LOGIN: 'SASL_PLAINTEXT' }`. */
  listeners?: Record<string, 'SSL' | 'SASL_PLAINTEXT' | 'SASL_SSL'>
}

export interface KafkaServer {
  /** `host:port`, straight to the broker. */
  readonly url: string
  /** `host:port` through {@link proxy}, also for what the broker says of its own address there. */
  readonly proxiedUrl: string
  readonly proxy: TcpProxy
  /** `host:port` of one of the further listeners. */
  listener(name: string): string
  /** Of the broker; another one after `restart`. Undefined while it is stopped. */
  readonly pid: number | undefined
  /** SIGTERM stops it in order, SIGKILL at once, SIGSTOP and SIGCONT freeze and thaw it. Waits for an end. */
  kill(signal: NodeJS.Signals): Promise<void>
  /** Starts it again with the same ports and data; stops it first when it still runs. */
  restart(): Promise<void>
  /** Stops it and forgets all topics, messages and producers: what starts next is a new cluster at the old address. */
  wipe(): Promise<void>
  /** Runs a tool of Kafka's own, for example `('kafka.admin.ConfigCommand', ['--bootstrap-server', url, …])`. */
  run(tool: string, args: readonly string[]): Promise<string>
  /** Where its data is, until `stop`. */
  readonly folder: string
  /** Done by itself at the end of the test file. */
  stop(): Promise<void>
}

const prefix = 'waybill-kafka-'

/**
 * `host:port` of a broker: WAYBILL_TEST_KAFKA_URL, or one started for this test file. Tests that stop, cut off or
 * configure the broker use {@link startKafka}. Guard with `describeWith('kafka', …)`.
 */
export async function kafkaUrl(): Promise<string> {
  return process.env['WAYBILL_TEST_KAFKA_URL'] ?? (await startKafka()).url
}

/**
 * An Apache Kafka of this test file's own: broker and controller in one process, on free ports of 127.0.0.1, with its
 * data in a temporary folder. Topics are not made by themselves. Guard with `describeWith('kafka-server', …)`.
 */
export async function startKafka(options: KafkaOptions = {}): Promise<KafkaServer> {
  const jars = findKafka()
  const java = findProgram('java')
  if (jars === undefined || java === undefined) throw new Error('Kafka is not installed')
  await clearLeftovers(prefix, recordedBroker)
  const folder = makeFolder(prefix)
  const proxied = await freePort()
  const proxy = await createProxy(proxied)
  const ports = { CONTROLLER: await freePort(), DIRECT: await freePort(), PROXIED: proxied }
  const further: Record<string, number> = {}
  for (const name of Object.keys(options.listeners ?? {})) further[name] = await freePort()
  writeSettings(folder, { ...ports, ...further }, proxy.port, options)
  format(folder)
  let broker: TestProcess | undefined

  async function start(): Promise<void> {
    // The kernel ends the broker when this process ends, in whatever way; elsewhere the next start clears it away.
    const setpriv = findProgram('setpriv')
    const command = [...(setpriv === undefined ? [] : [setpriv, '--pdeathsig', 'KILL']), java!]
    const [program, ...before] = command
    broker = startProcess(program!, [
      ...before,
      ...javaOptions(folder, jars!),
      'kafka.Kafka',
      settingsOf(folder),
    ])
    writeFileSync(join(folder, 'process'), String(broker.pid))
    await broker.line(/Kafka Server started/, { timeoutMs: 60_000 })
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
    await proxy.close()
    rmSync(folder, { recursive: true, force: true })
  }

  atEndOfFile(stop)
  await start()
  const address = (port: number) => `127.0.0.1:${port}`
  return {
    url: address(ports.DIRECT),
    proxiedUrl: address(proxy.port),
    proxy,
    listener: (name) => address(further[name]!),
    get pid() {
      return broker?.pid
    },
    kill,
    async restart() {
      await kill('SIGTERM')
      await start()
    },
    async wipe() {
      await kill('SIGKILL')
      format(folder)
    },
    async run(tool, args) {
      const run = startProcess(java, [...javaOptions(folder, jars), tool, ...args])
      const { code } = await run.exit
      if (code !== 0) throw new Error(`${tool} failed: ${run.stderr}${run.stdout}`)
      return run.stdout
    },
    folder,
    stop,
  }
}

function javaOptions(folder: string, jars: string): string[] {
  return [
    ...['-Xmx256m', '-XX:+UseSerialGC', '-XX:TieredStopAtLevel=1'],
    // Neither of these two may leave files behind when the process is killed.
    ...['-XX:-UsePerfData', `-Djava.io.tmpdir=${folder}`],
    '-Dorg.slf4j.simpleLogger.defaultLogLevel=warn',
    '-Dorg.slf4j.simpleLogger.log.kafka.server.KafkaRaftServer=info',
    ...['-classpath', join(jars, '*')],
  ]
}

const settingsOf = (folder: string) => join(folder, 'server.properties')

function writeSettings(
  folder: string,
  ports: Record<string, number>,
  proxyPort: number,
  { settings, listeners = {} }: KafkaOptions,
): void {
  const list = (of: [name: string, value: string | number][]) => of.map((pair) => pair.join(':')).join(',')
  const addresses = (of: Record<string, number>) =>
    list(Object.entries(of).map(([name, port]) => [`${name}://127.0.0.1`, port]))
  const { CONTROLLER, ...ofBroker } = ports
  const all = {
    'process.roles': 'broker,controller',
    'node.id': 1,
    'controller.quorum.voters': `1@127.0.0.1:${CONTROLLER}`,
    'controller.listener.names': 'CONTROLLER',
    'inter.broker.listener.name': 'DIRECT',
    listeners: addresses(ports),
    'advertised.listeners': addresses({ ...ofBroker, PROXIED: proxyPort }),
    'listener.security.protocol.map': list(
      Object.keys(ports).map((name) => [name, listeners[name] ?? 'PLAINTEXT']),
    ),
    'log.dirs': join(folder, 'data'),
    'auto.create.topics.enable': 'false',
    'group.initial.rebalance.delay.ms': 0,
    'offsets.topic.replication.factor': 1,
    'offsets.topic.num.partitions': 1,
    'transaction.state.log.replication.factor': 1,
    'transaction.state.log.num.partitions': 1,
    'transaction.state.log.min.isr': 1,
    // A broker that was killed may come back only when the controller has noticed.
    'broker.session.timeout.ms': 2000,
    'broker.heartbeat.interval.ms': 300,
    // Small.
    'num.network.threads': 2,
    'num.io.threads': 2,
    'background.threads': 2,
    'log.cleaner.dedupe.buffer.size': 4_194_304,
    ...settings,
  }
  const lines = Object.entries(all).map(([name, value]) => `${name}=${value}\n`)
  writeFileSync(settingsOf(folder), lines.join(''), { mode: 0o600 })
}

/** What `kafka-storage format` writes, without waiting for another JVM; the broker adds the rest. */
function format(folder: string): void {
  const data = join(folder, 'data')
  rmSync(data, { recursive: true, force: true })
  mkdirSync(data)
  const cluster = randomBytes(16).toString('base64url')
  writeFileSync(join(data, 'meta.properties'), `version=1\nnode.id=1\ncluster.id=${cluster}\n`)
}

function recordedBroker(folder: string): number[] {
  const file = join(folder, 'process')
  const pid = existsSync(file) ? Number(readFileSync(file, 'utf8')) : 0
  return pid > 1 && isAlive(pid) && commandLine(pid).includes(folder) ? [pid] : []
}
