import { randomUUID } from 'node:crypto'
import { DeleteQueueCommand } from '@aws-sdk/client-sqs'
import { beforeAll, describe, expect, it } from 'vitest'
import { testMessage } from '../../src/testing/test-message.ts'
import { type AwsAccess, awsAccess } from '../support/aws.ts'
import { startAwsFront } from '../support/aws-front.ts'
import { describeWith } from '../support/services.ts'
import { type SqsConsumer, consumeSqs, headersOf } from '../support/sqs-consumer.ts'
import { messagesTo, published, received, sqs } from './aws-bench.ts'
import { publish, publishOne } from './publishing.ts'

/** A server that is not ours may have the queues of other runs. */
const run = randomUUID().slice(0, 8)
const orders = `outbox.event.order-${run}`
const queueOfOrders = `outbox-event-order-${run}`

describeWith('sqs', 'SQS', () => {
  let aws: AwsAccess
  let standard: SqsConsumer
  let fifo: SqsConsumer
  beforeAll(async () => {
    aws = await awsAccess()
    standard = consumeSqs(aws.sqs, await aws.createQueue(queueOfOrders))
    fifo = consumeSqs(aws.sqs, await aws.createQueue(`${queueOfOrders}.fifo`))
  })

  const order = {
    aggregateType: 'order',
    aggregateId: 'Zoë/1',
    eventType: 'order.created',
    topic: orders,
    revision: '7',
    headers: { traceparent: '00-a-b-01', 'with space': 'ü' },
  }

  describe('a message', () => {
    it('goes to the FIFO queue of its topic, with the group of its aggregate', async () => {
      const message = testMessage(order)
      const publisher = await sqs({ endpoint: aws.url })
      expect(await publishOne(publisher, message)).toEqual({
        status: 'published',
        receipt: expect.stringMatching(new RegExp(`^sqs:${queueOfOrders}\\.fifo/[0-9a-f-]{36}$`)),
      })
      expect(await received(fifo, message)).toEqual({
        body: message.body,
        group: 'order/Zo%C3%AB%2F1',
        deduplicationId: message.messageId,
        attributes: {
          id: message.eventId,
          eventType: 'order.created',
          aggregateType: 'order',
          aggregateId: 'Zoë/1',
          createdAt: '2025-03-04T05:06:07.08Z',
          revision: '7',
          traceparent: '00-a-b-01',
          headers: '{"with space":"ü"}',
        },
      })
      expect(publisher.capabilities).toEqual({
        ordering: 'per-call',
        deduplication: true,
        maxMessageBytes: 262_144,
        maxBatchSize: 320,
      })
    })

    it('goes to a standard queue without group and deduplication id', async () => {
      const message = testMessage(order)
      const publisher = await sqs({ endpoint: aws.url, queue: '{topic}' })
      await publishOne(publisher, message)
      expect(await received(standard, message)).toMatchObject({
        group: undefined,
        deduplicationId: undefined,
      })
      expect(publisher.capabilities).toMatchObject({ ordering: 'per-call', deduplication: false })
    })

    it('goes to a queue by its URL, without a look-up', async () => {
      const front = await startAwsFront(aws.url)
      const message = testMessage({ topic: 'whatever' })
      const queue = await aws.createQueue(queueOfOrders)
      await publishOne(await sqs({ endpoint: front.url, queue }), message)
      await received(standard, message)
      expect(front.requests.map(({ action }) => action)).toEqual(['SendMessageBatch'])
    })

    it('may be a CloudEvent, binary or structured', async () => {
      const publisher = await sqs({ endpoint: aws.url, cloudEventsSource: 'https://shop.test' })
      const binary = testMessage({ ...order, format: 'cloudevents', body: '1.10' })
      const structured = testMessage({ ...order, format: 'cloudevents-structured', body: '1.10' })
      await publish(publisher, [binary, structured])
      expect(await received(fifo, binary)).toMatchObject({
        body: '1.10',
        attributes: { 'ce-id': binary.eventId, 'ce-source': 'https://shop.test/order' },
      })
      const { body, attributes } = await received(fifo, structured)
      expect(body).toMatch(/"data":1\.10\}$/)
      expect(attributes).toMatchObject({
        'content-type': 'application/cloudevents+json; charset=utf-8',
        traceparent: '00-a-b-01',
      })
    })

    it('is taken with every header and id that PostgreSQL can hold', async () => {
      const strange = ['\u0001', '\uFFFE', '\uFFFF', '\u007F', '🚚', ' ', 'x'.repeat(255), 'ü'.repeat(255)]
      const messages = strange.map((text) =>
        testMessage({
          ...order,
          aggregateType: text,
          aggregateId: text,
          headers: { [text]: text, empty: '' },
        }),
      )
      expect(await publish(await sqs({ endpoint: aws.url }), messages)).toEqual(messages.map(() => published))
      const groups = new Set<string>()
      for (const message of messages) {
        const got = await received(fifo, message)
        groups.add(got.group!)
        expect(headersOf(got)).toMatchObject({ aggregateId: message.aggregateId, ...message.headers })
      }
      expect(groups.size).toBe(strange.length)
    })
  })

  describe('what SQS cannot carry', () => {
    it.each([
      ['a topic that makes no name', { topic: 'ä' }, /makes no name of a queue/],
      ['a character that is none of XML', { body: '"\uFFFF"' }, /a character that AWS does not carry/],
      [
        'headers that are too large',
        { headers: { big: 'x'.repeat(262_144) } },
        /body and headers have \d+ bytes/,
      ],
    ])('%s fails its message alone', async (_what, overrides, text) => {
      const messages = [testMessage(order), testMessage({ ...order, ...overrides }), testMessage(order)]
      expect(await publish(await sqs({ endpoint: aws.url }), messages)).toMatchObject([
        { status: 'published' },
        { status: 'reject', error: { code: 'EVENT_UNDELIVERABLE', message: expect.stringMatching(text) } },
        { status: 'published' },
      ])
    })

    it('is known to the byte: the largest message arrives', async () => {
      const maxMessageBytes = 1_048_576
      const publisher = await sqs({ endpoint: aws.url, maxMessageBytes })
      const small = testMessage({ ...order, body: '""' })
      await publishOne(publisher, small)
      const { attributes } = await received(fifo, small)
      const rest = Object.entries(attributes).flatMap(([name, value]) => [name, 'String', value])
      const room = maxMessageBytes - Buffer.byteLength(rest.join(''))
      const largest = testMessage({ ...order, body: `"${'x'.repeat(room - 2)}"` })
      const larger = testMessage({ ...order, body: `"${'x'.repeat(room - 1)}"` })
      expect(await publish(publisher, [largest, larger])).toMatchObject([
        { status: 'published' },
        { status: 'reject', error: { message: expect.stringContaining('1048577 bytes') } },
      ])
      expect((await received(fifo, largest)).body).toBe(largest.body)
    })

    it('is told by a queue that takes less than others, about that message alone', async () => {
      const narrow = consumeSqs(
        aws.sqs,
        await aws.createQueue(`narrow-${run}`, { MaximumMessageSize: '1024' }),
      )
      const messages = messagesTo(`narrow-${run}`, 9)
      messages[4] = testMessage({ topic: `narrow-${run}`, body: `"${'x'.repeat(2000)}"` })
      const results = await publish(await sqs({ endpoint: aws.url, queue: '{topic}' }), messages)
      expect(results[4]).toMatchObject({
        status: 'reject',
        error: {
          code: 'EVENT_REJECTED',
          message: expect.stringMatching(/^sqs: queue "narrow-.*" refused .*shorter than 1024 bytes/),
          details: { answer: 'InvalidParameterValue' },
        },
      })
      expect(results.filter(({ status }) => status === 'published')).toHaveLength(8)
      expect(await narrow.waitFor(8)).toHaveLength(8)
    })
  })

  describe('a call', () => {
    it('is sent in requests of ten messages, and of no more bytes than allowed', async () => {
      const front = await startAwsFront(aws.url)
      const publisher = await sqs({ endpoint: front.url, queue: '{topic}' })
      const small = messagesTo(orders, 25)
      const large = Array.from({ length: 20 }, () =>
        testMessage({ ...order, body: `"${'x'.repeat(100_000)}"` }),
      )
      expect(await publish(publisher, [...small, ...large])).toEqual(
        [...small, ...large].map(() => published),
      )
      const batches = front.requests.filter(({ action }) => action === 'SendMessageBatch')
      const sizes = batches.map(({ body }) => (JSON.parse(body) as { Entries: unknown[] }).Entries.length)
      expect(sizes.toSorted((a, b) => b - a)).toEqual([10, 10, 7, ...Array.from({ length: 9 }, () => 2)])
      for (const message of [...small, ...large]) await received(standard, message)
    })

    it('asks once for the URL of a queue, also when many messages wait for it', async () => {
      const front = await startAwsFront(aws.url)
      const publisher = await sqs({ endpoint: front.url })
      await Promise.all([1, 2, 3].map(() => publish(publisher, messagesTo(orders, 30))))
      const lookUps = front.requests.filter(({ action }) => action === 'GetQueueUrl')
      expect(lookUps).toHaveLength(1)
    })

    it('tells of each request as soon as it is answered', async () => {
      const front = await startAwsFront(aws.url)
      let release!: () => void
      const held = new Promise<void>((resolve) => (release = resolve))
      front.handler = async ({ body }, pass) => {
        if (body.includes('to be held')) await held
        return pass()
      }
      const publisher = await sqs({ endpoint: front.url })
      const messages = [...messagesTo(orders, 10), testMessage({ ...order, body: '"to be held"' })]
      const told: number[] = []
      const call = publisher.publish(messages, {
        signal: AbortSignal.timeout(10_000),
        onPublished: (index, receipt) => {
          told.push(index)
          expect(receipt).toMatch(/^sqs:/)
        },
      })
      await expect.poll(() => told.length).toBe(10)
      release()
      expect(await call).toEqual(messages.map(() => published))
      expect(told).toEqual([...messages.keys()])
    })
  })

  describe('the deduplication of a FIFO queue', () => {
    it('drops a message that is sent again, and lets a deliberate replay through', async () => {
      const publisher = await sqs({ endpoint: aws.url })
      const first = testMessage(order)
      const replay = { ...first, messageId: `${first.eventId}.r1`, replay: 1 }
      for (const message of [first, first, replay]) {
        expect(await publishOne(publisher, message)).toEqual(published)
      }
      expect(headersOf(await received(fifo, replay))).toMatchObject({ id: first.eventId, replay: '1' })
      expect(fifo.messages.filter(({ attributes }) => attributes['id'] === first.eventId)).toHaveLength(2)
    })
  })

  describe('a queue that is missing', () => {
    const unavailable = {
      status: 'retry',
      error: {
        code: 'BROKER_UNAVAILABLE',
        message:
          `sqs: there is no queue "later-${run}.fifo" in eu-central-1 (QueueDoesNotExist): create it, or give the event ` +
          'another topic by a route',
      },
    }

    it('is an outage until it is there', async () => {
      const publisher = await sqs({ endpoint: aws.url })
      const messages = messagesTo(`later-${run}`, 3)
      expect(await publish(publisher, messages)).toMatchObject(messages.map(() => unavailable))
      const consumer = consumeSqs(aws.sqs, await aws.createQueue(`later-${run}.fifo`))
      expect(await publish(publisher, messages)).toEqual(messages.map(() => published))
      expect(await consumer.waitFor(3)).toHaveLength(3)
    })

    it('while others are there concerns its own messages', async () => {
      const publisher = await sqs({ endpoint: aws.url })
      await publishOne(publisher, testMessage(order))
      const messages = [testMessage(order), testMessage({ topic: `never-${run}` }), testMessage(order)]
      expect(await publish(publisher, messages)).toMatchObject([
        { status: 'published' },
        {
          status: 'retry',
          error: { code: 'PUBLISH_FAILED', message: expect.stringContaining(`"never-${run}.fifo"`) },
        },
        { status: 'published' },
      ])
    })

    it('is found again after it was deleted and made anew', async () => {
      const url = await aws.createQueue(`moved-${run}`)
      const publisher = await sqs({ endpoint: aws.url, queue: '{topic}' })
      const message = testMessage({ topic: `moved-${run}` })
      expect(await publishOne(publisher, message)).toEqual(published)
      await aws.sqs.send(new DeleteQueueCommand({ QueueUrl: url }))
      expect(await publishOne(publisher, message)).toMatchObject({ error: { code: 'BROKER_UNAVAILABLE' } })
      const consumer = consumeSqs(aws.sqs, await aws.createQueue(`moved-${run}`))
      expect(await publishOne(publisher, message)).toEqual(published)
      expect(await consumer.waitFor(1)).toHaveLength(1)
    })
  })
})
