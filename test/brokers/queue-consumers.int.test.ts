import { SendMessageCommand } from '@aws-sdk/client-sqs'
import { afterAll, expect, it, vi } from 'vitest'
import { rabbitmqPublisher, rabbitmqSource } from '../../src/brokers/rabbitmq.ts'
import { sqsPublisher, sqsSource } from '../../src/brokers/sqs.ts'
import { createConsumer } from '../../src/consumer/index.ts'
import type { Message } from '../../src/publishing/publisher.ts'
import type { Source } from '../../src/publishing/source.ts'
import { testMessage } from '../../src/testing/test-message.ts'
import { connectAmqp } from '../support/amqp-consumer.ts'
import { awsRegion, startAws } from '../support/aws.ts'
import { atEndOfFile } from '../support/cleanups.ts'
import { createTestDatabase } from '../support/postgres.ts'
import { createProxy } from '../support/proxy.ts'
import { startRabbitmq } from '../support/rabbitmq.ts'
import { describeWith } from '../support/services.ts'
import { sendAll } from './source-bench.ts'

vi.setConfig({ testTimeout: 120_000 })

/** A queue, and ways to it. */
interface Queue {
  source(): Source
  send(messages: readonly Message[]): Promise<void>
  /** Sends a body that is no event. */
  sendPoison(body: string): Promise<void>
  cut(): void
}

/**
 * Two processes at once, connections that break, messages that come twice, poison, and handlers that fail. Answers
 * with the ids of each aggregate, as they were sent and as they were handled.
 */
async function consumeUnderFaults({ source, send, sendPoison, cut }: Queue) {
  const db = await createTestDatabase()
  await db.query('CREATE TABLE handled (n serial, aggregate_id text, event_id text)')
  const failures = new Map<string, number>()
  const start = async () => {
    const consumer = createConsumer({
      ...{ name: 'billing', database: db.url, schema: db.schema, source: source(), retryBaseMs: 50 },
      handlers: {
        '*': async ({ event, tx }) => {
          await tx.query('INSERT INTO handled (aggregate_id, event_id) VALUES ($1, $2)', [
            event.aggregateId,
            event.id,
          ])
          const failed = failures.get(event.id) ?? 0
          failures.set(event.id, failed + 1)
          if (event.headers['fails'] === 'true' && failed < 2) throw new Error('the test says so')
        },
      },
    })
    atEndOfFile(() => consumer.stop())
    await consumer.start()
    return consumer
  }
  const handled = async () =>
    (await db.query('SELECT aggregate_id AS "aggregateId", event_id AS "eventId" FROM handled ORDER BY n'))
      .rows as { aggregateId: string; eventId: string }[]
  const untilHandled = (count: number) =>
    vi.waitFor(async () => expect((await handled()).length).toBeGreaterThanOrEqual(count), {
      timeout: 60_000,
    })
  const messages = Array.from({ length: 200 }, (_, index) =>
    testMessage({
      aggregateId: `aggregate ${index % 10}`,
      headers: { fails: String(index % 40 === 7) },
    }),
  )

  const first = await start()
  await send(messages.slice(0, 50))
  await untilHandled(10)
  const second = await start()
  await sendPoison('{"no": "event"}')
  await send(messages.slice(50, 100))
  cut()
  await untilHandled(60)
  await first.stop()
  await send(messages.slice(100))
  // As a relay does after a call without an answer, past the memory of the broker.
  await send(messages.slice(90, 120).map((message) => ({ ...message, messageId: `${message.eventId}.r1` })))
  cut()
  await untilHandled(200)
  const dead = async () =>
    (await db.query(`SELECT error FROM "${db.schema}".consumer_dead_letters`)).rows as { error: string }[]
  await expect.poll(dead).toMatchObject([{ error: expect.stringContaining('has no id of the event') }])
  await second.stop()

  const failing = messages.filter(({ headers }) => headers['fails'] === 'true')
  expect(failing.map(({ eventId }) => failures.get(eventId)! > 2)).toEqual([true, true, true, true, true])
  return { sent: byAggregate(messages), handled: byAggregate(await handled()) }
}

function byAggregate(events: readonly Pick<Message, 'aggregateId' | 'eventId'>[]): Record<string, string[]> {
  const ids: Record<string, string[]> = {}
  for (const { aggregateId, eventId } of events) (ids[aggregateId] ??= []).push(eventId)
  return ids
}

describeWith('sqs', 'consumers of SQS', () => {
  it('handle each event once and in order, whatever happens', async () => {
    const server = await startAws()
    const proxy = await createProxy(server.port)
    const queue = 'billing.fifo'
    const QueueUrl = await server.createQueue(queue)
    const publisher = await sqsPublisher({ endpoint: server.url, region: awsRegion, queue })
    afterAll(() => publisher.close())
    const { sent, handled } = await consumeUnderFaults({
      source: () =>
        sqsSource({
          ...{ endpoint: `http://127.0.0.1:${proxy.port}`, region: awsRegion, queue },
          ...{ prefetch: 20, visibilitySeconds: 3, waitSeconds: 1 },
        }),
      send: (messages) => sendAll(publisher, messages),
      async sendPoison(MessageBody) {
        const MessageGroupId = 'somebody else'
        const MessageDeduplicationId = 'poison'
        await server.sqs.send(
          new SendMessageCommand({ QueueUrl, MessageBody, MessageGroupId, MessageDeduplicationId }),
        )
      },
      cut: () => proxy.reset(),
    })
    expect(handled).toEqual(sent)
  })
})

describeWith('rabbitmq', 'consumers of RabbitMQ', () => {
  const quorum = { 'x-queue-type': 'quorum', 'x-single-active-consumer': true } as const
  it.each([
    ['a classic queue', 'exclusive', {}],
    ['a quorum queue', 'single-active', quorum],
  ] as const)('handle each event of %s once and in order, whatever happens', async (_, readers, args) => {
    const server = await startRabbitmq()
    const proxy = await createProxy(server.port)
    const queue = 'billing'
    const admin = await connectAmqp(server.url)
    await admin.queueDeclare({ queue, durable: true, arguments: args })
    const publisher = await rabbitmqPublisher({ url: server.url })
    afterAll(() => publisher.close())
    const url = server.url.replace(`:${server.port}`, `:${proxy.port}`)
    const { sent, handled } = await consumeUnderFaults({
      source: () => rabbitmqSource({ url, queue, readers, prefetch: 20 }),
      send: (messages) =>
        sendAll(
          publisher,
          messages.map((message) => ({ ...message, topic: queue })),
        ),
      async sendPoison(body) {
        const sender = admin.createPublisher({ confirm: true })
        await sender.send({ routingKey: queue }, Buffer.from(body))
        await sender.close()
      },
      cut: () => proxy.reset(),
    })
    expect(handled).toEqual(sent)
  })
})
