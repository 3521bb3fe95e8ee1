import { Kafka, logLevel } from 'kafkajs'
import { atEndOfFile } from './cleanups.ts'
import { type ProcessOptions, type TestProcess, startProcess } from './processes.ts'
import { findProgram } from './programs.ts'

/** A message as kcat read it. */
export interface KafkaMessage {
  readonly topic: string
  readonly partition: number
  readonly offset: number
  readonly key: string | null
  readonly body: string
  /** Names and values, in the order in which they were sent. */
  readonly headers: readonly (readonly [name: string, value: string])[]
}

/** Reads a topic from its beginning with kcat, a client that has nothing in common with ours. */
export interface KafkaConsumer {
  /** In order of arrival: that of a partition is kept. */
  readonly messages: readonly KafkaMessage[]
  /** Resolves when so many have arrived. */
  waitFor(count: number): Promise<readonly KafkaMessage[]>
  close(): Promise<void>
}

export function consumeTopic(url: string, topic: string): KafkaConsumer {
  const messages: KafkaMessage[] = []
  // -E: it waits for a broker that goes away.
  const kcat = runKcat(url, ['-C', '-t', topic, '-o', 'beginning', '-J', '-u', '-q', '-E'])
  let read = 0
  function parse(): KafkaMessage[] {
    for (; read < kcat.lines.length; read++) {
      const line = kcat.lines[read]!
      // What it says of a broker that went away goes to the standard error, and is no JSON.
      if (line.startsWith('{')) messages.push(toMessage(line))
    }
    return messages
  }
  return {
    get messages() {
      return parse()
    },
    async waitFor(count) {
      while (parse().length < count) await kcat.line(/^\{/, { from: kcat.lines.length })
      return messages
    },
    async close() {
      await kcat.kill()
    },
  }
}

/** The bodies of a topic with one partition, as raw bytes, each after its length: nothing is decoded on the way. */
export async function readRaw(url: string, topic: string): Promise<Buffer[]> {
  const kcat = runKcat(url, ['-C', '-t', topic, '-o', 'beginning', '-e', '-q', '-f', '%S %s'], {
    encoding: 'latin1',
  })
  const { code } = await kcat.exit
  if (code !== 0) throw new Error(`kcat failed: ${kcat.stderr}`)
  const bodies: Buffer[] = []
  const all = Buffer.from(kcat.stdout, 'latin1')
  for (let at = 0; at < all.length;) {
    const space = all.indexOf(' ', at)
    const end = space + 1 + Number(all.subarray(at, space).toString('latin1'))
    bodies.push(all.subarray(space + 1, end))
    at = end
  }
  return bodies
}

/** Writes messages with these keys. */
export async function produceWithKcat(
  url: string,
  topic: string,
  keys: readonly string[],
  options: readonly string[],
): Promise<void> {
  const kcat = runKcat(url, ['-P', '-t', topic, '-K', '|', ...options], {
    input: keys.map((key) => `${key}|x\n`).join(''),
  })
  const { code } = await kcat.exit
  if (code !== 0) throw new Error(`kcat failed: ${kcat.stderr}`)
}

function runKcat(url: string, args: readonly string[], options: ProcessOptions = {}): TestProcess {
  const program = findProgram('kcat')
  if (program === undefined) throw new Error('kcat is not installed')
  const quick = ['-X', 'fetch.wait.max.ms=20', '-X', 'reconnect.backoff.max.ms=200']
  return startProcess(program, ['-b', url, ...quick, ...args], options)
}

function toMessage(line: string): KafkaMessage {
  const {
    headers = [],
    payload,
    ...rest
  } = JSON.parse(line) as Omit<KafkaMessage, 'body' | 'headers'> & {
    payload: string
    headers?: string[]
  }
  const pairs = headers.flatMap((name, at) => (at % 2 === 0 ? [[name, headers[at + 1]!] as const] : []))
  return { ...rest, body: payload, headers: pairs }
}

/** The admin client of kafkajs, connected; it is closed at the end of the test file. */
export async function kafkaAdmin(url: string) {
  const admin = new Kafka({ brokers: [url], logLevel: logLevel.NOTHING }).admin()
  await admin.connect()
  atEndOfFile(() => admin.disconnect())
  return admin
}

/** Makes topics, with one partition unless told otherwise, and waits until they have their leaders. */
export async function createTopics(
  url: string,
  topics: Readonly<Record<string, { partitions?: number; settings?: Record<string, string> }>>,
): Promise<void> {
  const admin = await kafkaAdmin(url)
  await admin.createTopics({
    waitForLeaders: true,
    timeout: 30_000,
    topics: Object.entries(topics).map(([topic, { partitions = 1, settings = {} }]) => ({
      topic,
      numPartitions: partitions,
      replicationFactor: 1,
      configEntries: Object.entries(settings).map(([name, value]) => ({ name, value })),
    })),
  })
}
