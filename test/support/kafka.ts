import { rmSync } from 'node:fs'
import { freePort } from '../../scripts/embedded-postgres.ts'
import { clearLeftovers, makeFolder } from '../../scripts/embedded-postgres/leftovers.ts'
import { atEndOfFile } from './cleanups.ts'
import { type KafkaSettings, createNode, newCluster, recordedNode, runTool } from './kafka-node.ts'
import { type TcpProxy, createProxy } from './proxy.ts'

export interface KafkaOptions {
  /** Settings of the broker beside ours, for example `{ 'message.max.bytes': 10_000 }`. */
  settings?: KafkaSettings
  /** Further listeners: name and protocol, for example `{ LOGIN: 'SASL_PLAINTEXT' }`. */
  listeners?: Record<string, 'SSL' | 'SASL_PLAINTEXT' | 'SASL_SSL'>
}

/** A second broker of the cluster, with the id 2. */
export interface KafkaPeer {
  readonly url: string
  kill(signal: NodeJS.Signals): Promise<void>
  restart(): Promise<void>
}

export interface KafkaServer extends KafkaPeer {
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
  /** Starts another broker of the cluster, which this one controls. */
  join(): Promise<KafkaPeer>
  /** Runs a tool of Kafka's own, for example `('kafka.admin.ConfigCommand', ['--bootstrap-server', url, …])`. */
  run(tool: string, args: readonly string[]): Promise<string>
  /** Where its data is, in `data`, until `stop`. */
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
export async function startKafka({ settings = {}, listeners = {} }: KafkaOptions = {}): Promise<KafkaServer> {
  await clearLeftovers(prefix, recordedNode)
  const folder = makeFolder(prefix)
  const cluster = newCluster()
  const controller = await freePort()
  const [direct, proxied] = [await freePort(), await freePort()]
  const proxy = await createProxy(proxied)
  const further: Record<string, number> = {}
  for (const name of Object.keys(listeners)) further[name] = await freePort()
  const quorum = { 'controller.quorum.voters': `1@127.0.0.1:${controller}` }
  const node = createNode(folder, 1, cluster, {
    ...quorum,
    'process.roles': 'broker,controller',
    ...listenerSettings(
      { CONTROLLER: controller, DIRECT: direct, PROXIED: proxied, ...further },
      { PROXIED: proxy.port },
      listeners,
    ),
    ...settings,
  })

  async function stop(): Promise<void> {
    await node.kill('SIGKILL')
    await proxy.close()
    rmSync(folder, { recursive: true, force: true })
  }

  async function join(): Promise<KafkaPeer> {
    const own = makeFolder(prefix)
    const port = await freePort()
    const peer = createNode(own, 2, cluster, {
      ...quorum,
      'process.roles': 'broker',
      ...listenerSettings({ DIRECT: port }, {}, { CONTROLLER: 'PLAINTEXT' }),
      ...settings,
    })
    atEndOfFile(async () => {
      await peer.kill('SIGKILL')
      rmSync(own, { recursive: true, force: true })
    })
    await peer.start()
    return { url: address(port), kill: peer.kill, restart: () => peer.kill('SIGTERM').then(peer.start) }
  }

  atEndOfFile(stop)
  await node.start()
  return {
    url: address(direct),
    proxiedUrl: address(proxy.port),
    proxy,
    listener: (name) => address(further[name]!),
    get pid() {
      return node.pid
    },
    kill: node.kill,
    restart: () => node.kill('SIGTERM').then(node.start),
    async wipe() {
      await node.kill('SIGKILL')
      node.format()
    },
    join,
    run: (tool, args) => runTool(folder, tool, args),
    folder,
    stop,
  }
}

const address = (port: number) => `127.0.0.1:${port}`

/** `told`: ports that are given out instead of the real ones. */
function listenerSettings(
  ports: Record<string, number>,
  told: Record<string, number>,
  protocols: Record<string, string>,
): KafkaSettings {
  const addresses = (of: Record<string, number>) =>
    Object.entries(of)
      .map(([name, port]) => `${name}://${address(port)}`)
      .join(',')
  const { CONTROLLER: _, ...ofBroker } = ports
  const names = new Set([...Object.keys(ports), ...Object.keys(protocols)])
  return {
    listeners: addresses(ports),
    'advertised.listeners': addresses({ ...ofBroker, ...told }),
    'listener.security.protocol.map': [...names]
      .map((name) => `${name}:${protocols[name] ?? 'PLAINTEXT'}`)
      .join(','),
    'inter.broker.listener.name': 'DIRECT',
  }
}
