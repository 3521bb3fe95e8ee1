import { randomBytes } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { commandLine, isAlive } from '../../scripts/embedded-postgres/processes.ts'
import { type TestProcess, startProcess } from './processes.ts'
import { findKafka, findProgram } from './programs.ts'

export type KafkaSettings = Readonly<Record<string, string | number>>

/** One process of Kafka: a broker, with the controller of its cluster or without. */
export interface KafkaNode {
  readonly pid: number | undefined
  /** Waits until it takes work. */
  start(): Promise<void>
  /** SIGTERM and SIGKILL end it, which is waited for. */
  kill(signal: NodeJS.Signals): Promise<void>
  /** Forgets all its data; for one that is stopped. */
  format(cluster?: string): void
}

/** The identity of a cluster. */
export const newCluster = () => randomBytes(16).toString('base64url')

const fileOfProcess = 'process'

/** A node with its data in this folder, which is there. */
export function createNode(folder: string, id: number, cluster: string, settings: KafkaSettings): KafkaNode {
  const data = join(folder, 'data')
  const properties = join(folder, 'server.properties')
  const all = { 'node.id': id, 'log.dirs': data, ...ours, ...settings }
  const lines = Object.entries(all).map(([name, value]) => `${name}=${value}\n`)
  writeFileSync(properties, lines.join(''), { mode: 0o600 })
  let node: TestProcess | undefined

  /** What `kafka-storage format` writes, without waiting for another JVM; the broker adds the rest. */
  function format(of: string): void {
    rmSync(data, { recursive: true, force: true })
    mkdirSync(data)
    writeFileSync(join(data, 'meta.properties'), `version=1\nnode.id=${id}\ncluster.id=${of}\n`)
  }

  format(cluster)
  return {
    get pid() {
      return node?.pid
    },
    async start() {
      // The kernel ends it when this process ends, in whatever way; elsewhere the next start clears it away.
      const setpriv = findProgram('setpriv')
      const [program, ...before] = setpriv === undefined ? [java()] : [setpriv, '--pdeathsig', 'KILL', java()]
      node = startProcess(program, [...before, ...javaOptions(folder), 'kafka.Kafka', properties])
      writeFileSync(join(folder, fileOfProcess), String(node.pid))
      await node.line(/Kafka Server started/, { timeoutMs: 60_000 })
    },
    async kill(signal) {
      if (node === undefined) return
      node.signal(signal)
      if (signal !== 'SIGTERM' && signal !== 'SIGKILL') return
      await node.exit
      node = undefined
    },
    format: (of = newCluster()) => format(of),
  }
}

/** Runs a tool of Kafka's own. */
export async function runTool(folder: string, tool: string, args: readonly string[]): Promise<string> {
  const run = startProcess(java(), [...javaOptions(folder), tool, ...args])
  const { code } = await run.exit
  if (code !== 0) throw new Error(`${tool} failed: ${run.stderr}${run.stdout}`)
  return run.stdout
}

/** The node of a folder that was left behind, while it runs. */
export function recordedNode(folder: string): number[] {
  const file = join(folder, fileOfProcess)
  const pid = existsSync(file) ? Number(readFileSync(file, 'utf8')) : 0
  return pid > 1 && isAlive(pid) && commandLine(pid).includes(folder) ? [pid] : []
}

function java(): string {
  const program = findProgram('java')
  if (program === undefined) throw new Error('java is not installed')
  return program
}

function javaOptions(folder: string): string[] {
  const jars = findKafka()
  if (jars === undefined) throw new Error('Kafka is not installed')
  return [
    ...['-Xmx256m', '-XX:+UseSerialGC', '-XX:TieredStopAtLevel=1'],
    // Neither of these two may leave files behind when the process is killed.
    ...['-XX:-UsePerfData', `-Djava.io.tmpdir=${folder}`],
    '-Dorg.slf4j.simpleLogger.defaultLogLevel=warn',
    '-Dorg.slf4j.simpleLogger.log.kafka.server.KafkaRaftServer=info',
    ...['-classpath', join(jars, '*')],
  ]
}

const ours: KafkaSettings = {
  'controller.listener.names': 'CONTROLLER',
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
}
