import type * as kafkajs from 'kafkajs'
import type { ICustomPartitioner, Producer, RecordMetadata } from 'kafkajs'
import type { KafkaSettings } from '../kafka-options.ts'
import { createSockets } from './client.ts'
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

  function openSession(): Session & { connect(): Promise<void> } {
    const sockets = createSockets(settings)
    /** True when it has its producer id. */
    let initialised = false
    const producer: Producer = new library.Kafka(sockets.config).producer({
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
        sockets.connected()
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
        sockets.destroy()
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
