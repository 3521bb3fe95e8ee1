import { PassThrough } from 'node:stream'
import { afterAll, describe, it } from 'vitest'
import { handlerPublisher } from '../../src/brokers/handler.ts'
import { rabbitmqPublisher } from '../../src/brokers/rabbitmq.ts'
import { snsPublisher } from '../../src/brokers/sns.ts'
import { sqsPublisher } from '../../src/brokers/sqs.ts'
import { stdoutPublisher } from '../../src/brokers/stdout.ts'
import { webhookPublisher } from '../../src/brokers/webhook.ts'
import type { Message } from '../../src/publishing/publisher.ts'
import type { PublisherBench, ReceivedMessage } from '../../src/testing/publisher-bench.ts'
import { testPublisher } from '../../src/testing/publisher-contract.ts'
import { consumeQueue } from '../support/amqp-consumer.ts'
import { type AwsServer, awsRegion, startAws } from '../support/aws.ts'
import { createProxy } from '../support/proxy.ts'
import { startRabbitmq } from '../support/rabbitmq.ts'
import { startReceiver } from '../support/receiver.ts'
import { describeWith } from '../support/services.ts'
import { consumeSqs, headersOf } from '../support/sqs-consumer.ts'

const runner = { describe, it, afterAll }

testPublisher(
  {
    name: 'webhook',
    features: {
      ordering: 'per-call',
      headers: true,
      oversize: true,
      unencodableHeaders: { 'with space': 'x' },
      cut: true,
      restart: true,
      misaddressed: false,
    },
    async setUp(): Promise<PublisherBench> {
      const receiver = await startReceiver()
      const proxy = await createProxy(receiver.port)
      return {
        create: () =>
          webhookPublisher({ url: `http://127.0.0.1:${proxy.port}/`, maxMessageBytes: 2_000_000 }),
        received: () =>
          receiver.requests.map(({ headers, body }) => ({
            messageId: headers['webhook-id']!,
            eventId: headers['x-waybill-event-id']!,
            headers,
            body,
          })),
        cut: async () => proxy.reset(),
        stop: () => receiver.stop().then(() => proxy.down()),
        start: () => receiver.start().then(() => proxy.up()),
        tearDown: async () => {
          await proxy.close()
          await receiver.stop()
        },
      }
    },
  },
  runner,
)

describeWith('rabbitmq', 'with RabbitMQ', () => {
  testPublisher(
    {
      name: 'rabbitmq',
      features: {
        ordering: 'per-call',
        headers: true,
        oversize: true,
        unencodableHeaders: { ['n'.repeat(256)]: 'x' },
        cut: true,
        restart: true,
        misaddressed: true,
      },
      async setUp(): Promise<PublisherBench> {
        const server = await startRabbitmq()
        const proxy = await createProxy(server.port)
        const url = server.url.replace(`:${server.port}`, `:${proxy.port}`)
        let consumer = await consumeQueue(server.url, 'contract.all', 'contract')
        return {
          create: () => rabbitmqPublisher({ url, exchange: 'contract' }),
          received: () =>
            consumer.messages.map(({ messageId, headers, body }) => ({
              messageId: messageId!,
              eventId: headers!['id'],
              headers: headers!,
              body,
            })),
          cut: async () => proxy.reset(),
          stop: () => server.kill('SIGTERM'),
          async start() {
            await server.restart()
            consumer = await consumeQueue(server.url, 'contract.all', 'contract', consumer.messages)
          },
          misaddressed: () => rabbitmqPublisher({ url, exchange: 'missing' }),
          async tearDown() {
            await consumer.close()
            await proxy.close()
            await server.stop()
          },
        }
      },
    },
    runner,
  )
})

/** A queue and a publisher to it, or to a topic before it. */
async function awsBench(
  queue: string,
  create: (server: AwsServer, endpoint: string, suffix: string) => Promise<PublisherBench['create']>,
): Promise<PublisherBench> {
  const server = await startAws()
  const proxy = await createProxy(server.port)
  const consumer = consumeSqs(server.sqs, await server.createQueue(queue))
  const endpoint = `http://127.0.0.1:${proxy.port}`
  return {
    create: await create(server, endpoint, ''),
    received: () =>
      consumer.messages.map((message) => {
        const headers = headersOf(message)
        const { id = '', replay } = headers
        // A standard queue has no field for it.
        const messageId = message.deduplicationId ?? (replay === undefined ? id : `${id}.r${replay}`)
        return { messageId, eventId: id, headers, body: message.body }
      }),
    cut: async () => proxy.reset(),
    stop: () => server.kill('SIGTERM').then(() => proxy.down()),
    start: () => server.restart().then(() => proxy.up()),
    misaddressed: await create(server, endpoint, '-missing'),
    async tearDown() {
      await consumer.close()
      await proxy.close()
      await server.stop()
    },
  }
}

describeWith('sqs', 'with SQS and SNS', () => {
  const features = {
    ordering: 'per-call',
    headers: true,
    oversize: true,
    cut: true,
    restart: true,
    misaddressed: true,
  } as const
  for (const suffix of ['', '.fifo']) {
    const kind = suffix === '' ? 'standard' : 'FIFO'
    testPublisher(
      {
        name: `sqs (${kind})`,
        features,
        setUp: () =>
          awsBench(`outbox-event-contract${suffix}`, async (_server, endpoint, more) => () => {
            const queue = `{topic}${more}${suffix}`
            return sqsPublisher({ endpoint, region: awsRegion, queue, maxMessageBytes: 1_048_576 })
          }),
      },
      runner,
    )
    testPublisher(
      {
        name: `sns (${kind})`,
        features,
        setUp: () =>
          awsBench(`behind${suffix}`, async (server, endpoint, more) => {
            const arn = await server.createTopic(`outbox-event-contract${suffix}`, [`behind${suffix}`])
            const topicArn = arn.replace(/:[^:]*$/, `:{topic}${more}${suffix}`)
            return () => snsPublisher({ endpoint, topicArn })
          }),
      },
      runner,
    )
  }
})

const here = {
  headers: true,
  oversize: false,
  cut: false,
  restart: false,
  misaddressed: false,
} as const

testPublisher(
  {
    name: 'handler',
    features: { ...here, ordering: 'per-call' },
    async setUp() {
      const received: Message[] = []
      return {
        create: () =>
          handlerPublisher(async (message) => {
            await new Promise(setImmediate)
            received.push(message)
          }),
        received: () => received,
        tearDown: async () => undefined,
      }
    },
  },
  runner,
)

testPublisher(
  {
    name: 'stdout',
    features: { ...here, ordering: 'batch' },
    async setUp() {
      const stream = new PassThrough()
      let text = ''
      stream.setEncoding('utf8').on('data', (chunk: string) => (text += chunk))
      const parse = (line: string): ReceivedMessage => {
        const { id, headers } = JSON.parse(line) as { id: string; headers: Record<string, string> }
        const body = line.slice(line.indexOf(',"body":') + 8, -1)
        return { messageId: id, eventId: headers['id']!, headers, body }
      }
      return {
        create: () => stdoutPublisher({ stream }),
        received: () => text.split('\n').slice(0, -1).map(parse),
        tearDown: async () => void stream.end(),
      }
    },
  },
  runner,
)
