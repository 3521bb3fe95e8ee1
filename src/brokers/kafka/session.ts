import { connect as connectTcp, isIP, type Socket } from 'node:net'
import { type ConnectionOptions, connect as connectTls } from 'node:tls'
import type * as kafkajs from 'kafkajs'
import type {
  ICustomPartitioner,
  ISocketFactory,
  KafkaConfig,
  Producer,
  RecordMetadata,
  SASLOptions,
} from 'kafkajs'
import type { KafkaSettings } from '../kafka-options.ts'
import { failureOf } from './outcomes.ts'
import type { KafkaRecord } from './record.ts'

/** What is needed of the module, which is loaded only when it is used. */
export type KafkaLibrary = Pick<typeof kafkajs, 'Kafka' | 'Partitioners'>
type Partitioner = ReturnType<ICustomPartitioner>

/** The records of one topic, in order. */
export interface TopicRecords {
  readonly topic: string
  readonly messages: KafkaRecord[]
}

/**
 * One idempotent producer. It has one call under way at a time, and none after one that failed: KafkaJS then takes
 * back the sequence numbers that it gave out, and a broker that has the messages all the same would take the next
 * ones under these numbers for repetitions, confirm them, and throw them away.
 */
export interface Session {
  /** Notes in each record its partition. Rejects with an error of KafkaJS's. */
  send(topics: readonly TopicRecords[]): Promise<readonly RecordMetadata[]>
  /** Closes in order; for a session that has nothing under way. */
  close(): Promise<void>
  /** Ends every connection at once, and with them whatever is under way. */
  destroy(): void
}

export interface SessionMaker {
  open(): { readonly session: Session; readonly ready: Promise<void> }
}

// How often KafkaJS itself tries a call again before it says why it failed: enough for a connection that was closed
// while it was idle, and for a partition with a new leader.
const sendRetries = 2
const closeLimitMs = 1000

export function createSessionMaker(library: KafkaLibrary, settings: KafkaSettings): SessionMaker {
  const { createTopics, compression } = settings
  const config = clientConfig(settings)

  function openSession(): Session & { connect(): Promise<void> } {
    const sockets = new Set<Socket>()
    let destroyed = false
    let connecting = true
    /** True when it has its producer id. */
    let initialised = false
    const makeSocket = config.socketFactory ?? defaultSocket
    const socketFactory: ISocketFactory = (args) => {
      // KafkaJS would connect again for a call that nobody waits for.
      if (destroyed) throw new Error('the producer was given up')
      const socket = makeSocket(args)
      sockets.add(socket)
      socket.once('close', () => sockets.delete(socket))
      if (connecting) expectAnswer(socket, settings.connectTimeoutMs)
      return socket
    }
    const own: KafkaConfig = { ...config, socketFactory }
    // KafkaJS writes into it.
    if (own.sasl !== undefined) own.sasl = { ...own.sasl }
    const producer: Producer = new library.Kafka(own).producer({
      idempotent: true,
      maxInFlightRequests: 1,
      allowAutoTopicCreation: createTopics,
      createPartitioner: () => rememberingPartitioner(library.Partitioners.DefaultPartitioner()),
      retry: { retries: sendRetries, initialRetryTime: 50, maxRetryTime: 500 },
    })

    /**
     * KafkaJS asks for the metadata of all topics there are before it asks for a producer id, and gives up when one
     * of them has a partition without a leader. It is connected then all the same, and once it has looked at the
     * topics that it shall write to, it looks at no others.
     */
    async function initialise(topics: readonly TopicRecords[]): Promise<void> {
      if (topics.length > 0) {
        await producer.sendBatch({ topicMessages: topics.map(({ topic }) => ({ topic, messages: [] })) })
      }
      await producer.connect()
      initialised = true
    }

    return {
      async connect() {
        try {
          await initialise([])
        } catch (error) {
          const failure = failureOf(error)
          if (failure !== 'topic' && failure !== 'partition') throw error
        }
        connecting = false
      },
      async send(topics) {
        if (!initialised) await initialise(topics)
        return producer.sendBatch({
          topicMessages: topics.map(({ topic, messages }) => ({ topic, messages })),
          compression: compression === 'gzip' ? 1 : 0,
        })
      },
      async close() {
        let timer: NodeJS.Timeout | undefined
        const limit = new Promise<void>((resolve) => (timer = setTimeout(resolve, closeLimitMs)))
        await Promise.race([producer.disconnect().catch(() => undefined), limit])
        clearTimeout(timer)
        this.destroy()
      },
      destroy() {
        destroyed = true
        for (const socket of sockets) socket.destroy(new Error('the producer was given up'))
        producer.disconnect().catch(() => undefined)
      },
    }
  }

  return {
    open() {
      const session = openSession()
      return { session, ready: session.connect() }
    },
  }
}

function clientConfig(settings: KafkaSettings): KafkaConfig {
  const { brokers, clientId, connectTimeoutMs, sasl, client = {} } = settings
  const ssl = tlsOptions(settings)
  return {
    clientId,
    // Everything that it would write into the log comes as an error, too.
    logLevel: 0,
    connectionTimeout: connectTimeoutMs,
    authenticationTimeout: connectTimeoutMs,
    ...(ssl === undefined ? {} : { ssl }),
    ...(sasl === undefined ? {} : { sasl: sasl as SASLOptions }),
    // One try for each address, and one more.
    retry: { retries: brokers.length, initialRetryTime: 50, maxRetryTime: 500 },
    ...client,
    brokers: [...brokers],
  }
}

/** The partition of a record is decided once, so that KafkaJS's own tries are repetitions for the broker as well. */
function rememberingPartitioner(choose: Partitioner): Partitioner {
  return (args) => {
    const record = args.message as KafkaRecord
    if (record.partition === undefined || record.partition >= args.partitionMetadata.length) {
      delete record.partition
      record.partition = choose(args)
    }
    return record.partition
  }
}

function tlsOptions({ tls, ca, cert, key }: KafkaSettings): ConnectionOptions | undefined {
  if (!tls) return undefined
  return {
    ...(ca === undefined ? {} : { ca }),
    ...(cert === undefined || key === undefined ? {} : { cert, key }),
  }
}

/** KafkaJS bounds the time for a connection, and waits half a minute for the first answer on it. */
function expectAnswer(socket: Socket, limitMs: number): void {
  const giveUp = () => socket.destroy(new Error(`no answer within ${limitMs} ms`))
  const timer = setTimeout(giveUp, limitMs)
  socket.once('data', () => clearTimeout(timer)).once('close', () => clearTimeout(timer))
}

const keepAliveMs = 30_000

function defaultSocket({ host, port, ssl, onConnect }: Parameters<ISocketFactory>[0]): Socket {
  const socket = ssl
    ? connectTls({ host, port, ...(isIP(host) === 0 ? { servername: host } : {}), ...ssl }, onConnect)
    : connectTcp({ host, port }, onConnect)
  return socket.setNoDelay(true).setKeepAlive(true, keepAliveMs)
}
