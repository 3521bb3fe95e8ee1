import { jetstreamManager } from '@nats-io/jetstream'
import { connect } from '@nats-io/transport-node'
import { Connection } from 'rabbitmq-client'
import { atEndOfFile, runCleanups } from '../../test/support/cleanups.ts'
import { startKafka } from '../../test/support/kafka.ts'
import { createTopics } from '../../test/support/kafka-consumer.ts'
import { findKafka, findNats, findProgram, findRabbitmq, findRedis } from '../../test/support/programs.ts'
import { startAws } from '../../test/support/aws.ts'
import { startNats } from '../../test/support/nats.ts'
import { startRabbitmq } from '../../test/support/rabbitmq.ts'
import { startRedis } from '../../test/support/redis.ts'
import type { PublishJob, PublishResult } from '../child/job.ts'
import { type Context, type Figure, type Part, type Section, figure, thousands } from '../part.ts'
import { startWebhook } from '../webhook.ts'
import { median, ratioOfRounds, rounded, spread } from '../statistics.ts'

/** A broker with topics of its own for each run. */
interface Place {
  address: string
  createTopic(topic: string): Promise<void>
}

interface Contestant {
  broker: PublishJob['broker']
  title: string
  /** Why it cannot take part; undefined: it can. */
  missing: () => string | undefined
  start(): Promise<Place>
}

const install = 'is not installed (scripts/install-test-services.sh)'

/** One entry for each broker. */
const contestants: readonly Contestant[] = [
  {
    broker: 'kafka',
    title: 'Kafka, 3 partitions, `kafkajs`',
    missing: () => (findKafka() && findProgram('java') ? undefined : `Kafka ${install}`),
    async start() {
      const { url } = await startKafka()
      return { address: url, createTopic: (topic) => createTopics(url, { [topic]: { partitions: 3 } }) }
    },
  },
  {
    broker: 'rabbitmq',
    title: 'RabbitMQ, a durable queue, `rabbitmq-client`',
    missing: () => (findRabbitmq() && findProgram('epmd') ? undefined : `RabbitMQ ${install}`),
    async start() {
      const { url } = await startRabbitmq()
      return { address: url, createTopic: (queue) => declareQueue(url, queue) }
    },
  },
  {
    broker: 'nats',
    title: 'NATS JetStream, a stream on disk, `@nats-io/jetstream`',
    missing: () => (findNats() ? undefined : `NATS ${install}`),
    async start() {
      const { url } = await startNats()
      return { address: url, createTopic: (stream) => createStream(url, stream) }
    },
  },
  {
    broker: 'redis',
    title: 'Redis Streams, `ioredis`',
    missing: () => (findRedis() ? undefined : `Redis ${install}`),
    async start() {
      const { url } = await startRedis()
      return { address: url, createTopic: async () => undefined }
    },
  },
  {
    broker: 'sqs',
    title: 'SQS, a standard queue of an emulator, `@aws-sdk/client-sqs`',
    missing: () => undefined,
    async start() {
      const server = await startAws()
      return {
        address: server.url,
        async createTopic(queue) {
          await server.createQueue(queue)
        },
      }
    },
  },
  {
    broker: 'sns',
    title: 'SNS, a standard topic of an emulator without subscriptions, `@aws-sdk/client-sns`',
    missing: () => undefined,
    async start() {
      const { url } = await startAws()
      return { address: url, createTopic: async () => undefined }
    },
  },
  {
    broker: 'webhook',
    title: 'a webhook, 32 connections, `undici`',
    missing: () => undefined,
    async start() {
      const { url, close } = await startWebhook()
      atEndOfFile(close)
      return { address: url, createTopic: async () => undefined }
    },
  },
]

const figureOf = (broker: string) => `publisher.${broker}_vs_bare`
const jobTimeoutMs = 120_000

/** Each publisher beside the client that it is built on, with the same batches. */
export const publishersPart: Part = {
  name: 'publishers',
  owes: contestants.map(({ broker }) => figureOf(broker)),
  async run(context) {
    const figures: Record<string, Figure> = {}
    const rows: Section['rows'][number][] = []
    for (const contestant of contestants) {
      const { broker, title } = contestant
      const missing = contestant.missing()
      if (missing !== undefined) {
        figures[figureOf(broker)] = { missing }
        continue
      }
      const { waybill, bare } = await measure(context, contestant)
      const ratio = ratioOfRounds(rates(waybill), rates(bare))
      figures[figureOf(broker)] = figure(ratio, 'no round')
      rows.push([
        title,
        thousands(median(rates(waybill))),
        thousands(median(rates(bare))),
        rounded(ratio),
        rounded(median(waybill.map(({ cpuMsPerThousand }) => cpuMsPerThousand))),
        rounded(median(bare.map(({ cpuMsPerThousand }) => cpuMsPerThousand))),
        `${Math.round(spread(rates(waybill)) * 100)} %`,
      ])
    }
    const { batchSize, batches, rounds } = context.scale.publishers
    const head = ['broker', 'messages/s', 'bare client', 'ratio', 'CPU, ms/1000', 'bare, ms/1000', 'spread']
    const notes = [
      `${thousands(batchSize * batches)} messages of about 300 bytes in batches of ${batchSize}, one batch after the other, each confirmed in full, to a broker on the same machine. Medians of ${rounds} alternating rounds; the bare client gets its records ready-made.`,
    ]
    return { figures, sections: rows.length === 0 ? [] : [{ title: 'Publishers', notes, head, rows }] }
  },
}

/** Ends the brokers that run. */
export const stopBrokers = runCleanups

const rates = (results: readonly PublishResult[]) => results.map(({ messagesPerSecond }) => messagesPerSecond)

async function measure({ scale, children, log }: Context, { broker, start }: Contestant) {
  const { rounds, ...sizes } = scale.publishers
  const results = { waybill: [] as PublishResult[], bare: [] as PublishResult[] }
  const sides = ['waybill', 'bare'] as const
  try {
    const { address, createTopic } = await start()
    for (let round = 0; round < rounds; round++) {
      for (const by of round % 2 === 0 ? sides : sides.toReversed()) {
        const topic = `bench-${round}-${by}`
        await createTopic(topic)
        const child = children.start(
          { job: 'publish', broker, by, address, topic, ...sizes },
          { timeoutMs: jobTimeoutMs },
        )
        try {
          await child.warm()
          const result = await child.ask<PublishResult>('go')
          results[by].push(result)
          log(`publishers: ${broker}, ${by}: ${thousands(result.messagesPerSecond)} messages/s`)
        } finally {
          await child.stop()
        }
      }
    }
    return results
  } finally {
    await stopBrokers()
  }
}

async function createStream(url: string, name: string): Promise<void> {
  const connection = await connect({ servers: new URL(url).host })
  try {
    const manager = await jetstreamManager(connection)
    await manager.streams.add({ name, subjects: [name] })
  } finally {
    await connection.close()
  }
}

async function declareQueue(url: string, queue: string): Promise<void> {
  const connection = new Connection(url)
  try {
    await connection.queueDeclare({ queue, durable: true })
  } finally {
    await connection.close()
  }
}
