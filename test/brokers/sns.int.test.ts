import { randomUUID } from 'node:crypto'
import { beforeAll, beforeEach, describe, expect, it } from 'vitest'
import type { Publisher } from '../../src/publishing/publisher.ts'
import { testMessage } from '../../src/testing/test-message.ts'
import { type AwsAccess, awsAccess } from '../support/aws.ts'
import { type AwsFront, snsError, startAwsFront } from '../support/aws-front.ts'
import { describeWith } from '../support/services.ts'
import { type SqsConsumer, consumeSqs, headersOf } from '../support/sqs-consumer.ts'
import { messagesTo, published, received, sns } from './aws-bench.ts'
import { publish, publishOne } from './publishing.ts'

/** A server that is not ours may have the topics of other runs. */
const orders = `orders-${randomUUID().slice(0, 8)}`

describeWith('sqs', 'SNS', () => {
  let aws: AwsAccess
  let topicArn: string
  let front: AwsFront
  let fifo: SqsConsumer
  let standard: SqsConsumer
  let publisher: Publisher
  beforeAll(async () => {
    aws = await awsAccess()
    fifo = consumeSqs(aws.sqs, await aws.createQueue(`search-${orders}.fifo`))
    standard = consumeSqs(aws.sqs, await aws.createQueue(`mail-${orders}`))
    topicArn = await aws.createTopic(`${orders}.fifo`, [`search-${orders}.fifo`])
    await aws.createTopic(orders, [`mail-${orders}`])
    topicArn = topicArn.replace(/[^:]*$/, '{topic}.fifo')
  })
  beforeEach(async () => {
    front = await startAwsFront(aws.url)
    publisher = await sns({ endpoint: front.url, topicArn })
  })

  function answerBatches(...answer: Parameters<typeof snsError>): void {
    front.handler = ({ action }, pass) => (action === 'PublishBatch' ? snsError(...answer) : pass())
  }

  describe('a message', () => {
    const order = {
      aggregateType: 'order',
      aggregateId: 'Zoë/1',
      topic: orders,
      headers: { traceparent: '00-a-b-01', 'with space': 'ü & <b>' },
    }

    it('goes to the FIFO topic, and from there to its queues with group, id and attributes', async () => {
      const message = testMessage(order)
      expect(await publishOne(publisher, message)).toEqual({
        status: 'published',
        receipt: expect.stringMatching(new RegExp(`^sns:${orders}\\.fifo/[0-9a-f-]{36}$`)),
      })
      expect(await received(fifo, message)).toEqual({
        body: message.body,
        group: 'order/Zo%C3%AB%2F1',
        deduplicationId: message.messageId,
        attributes: {
          id: message.eventId,
          eventType: 'contract.checked',
          aggregateType: 'order',
          aggregateId: 'Zoë/1',
          createdAt: '2025-03-04T05:06:07.08Z',
          traceparent: '00-a-b-01',
          headers: '{"with space":"ü & <b>"}',
        },
      })
      expect(publisher.capabilities).toMatchObject({ ordering: 'per-call', deduplication: true })
    })

    it('goes to a standard topic without group and deduplication id', async () => {
      const message = testMessage(order)
      const plain = await sns({ endpoint: aws.url, topicArn: topicArn.replace('{topic}.fifo', orders) })
      expect(await publishOne(plain, message)).toEqual(published)
      expect(await received(standard, message)).toMatchObject({
        group: undefined,
        deduplicationId: undefined,
      })
      expect(plain.capabilities).toMatchObject({ ordering: 'per-call', deduplication: false })
    })

    it('that is replayed on purpose arrives, and one that is sent again does not', async () => {
      const first = testMessage(order)
      const replay = { ...first, messageId: `${first.eventId}.r1`, replay: 1 }
      for (const message of [first, first, replay]) {
        expect(await publishOne(publisher, message)).toEqual(published)
      }
      expect(headersOf(await received(fifo, replay))).toMatchObject({ id: first.eventId, replay: '1' })
      expect(fifo.messages.filter(({ attributes }) => attributes['id'] === first.eventId)).toHaveLength(2)
    })

    it('that SNS cannot carry fails alone', async () => {
      const bad = [
        testMessage({ ...order, topic: 'ä' }),
        testMessage({ ...order, body: '"\uFFFE"' }),
        testMessage({ ...order, body: `"${'x'.repeat(262_144)}"` }),
      ]
      const results = await publish(publisher, [testMessage(order), ...bad, testMessage(order)])
      expect(results.map(({ status }) => status)).toEqual([
        'published',
        'reject',
        'reject',
        'reject',
        'published',
      ])
      expect(results.slice(1, 4)).toMatchObject(bad.map(() => ({ error: { code: 'EVENT_UNDELIVERABLE' } })))
    })
  })

  it('a call is sent in requests of ten messages, and of no more bytes than allowed', async () => {
    const messages = [...messagesTo(orders, 12)]
    for (let i = 0; i < 5; i++)
      messages.push(testMessage({ topic: orders, body: `"${'x'.repeat(100_000)}"` }))
    expect(await publish(publisher, messages)).toEqual(messages.map(() => published))
    const sizes = front.requests.map(({ body }) => body.match(/member\.\d+\.Id=/g)!.length)
    expect(sizes.toSorted((a, b) => b - a)).toEqual([10, 4, 2, 1])
    for (const message of messages) await received(fifo, message)
  })

  it('an entry that fails does not fail its neighbours', async () => {
    front.handler = async ({ action, body }, pass) => {
      if (action !== 'PublishBatch') return pass()
      const failed =
        '<member><Id>1</Id><Code>InternalError</Code><Message>no</Message><SenderFault>false</SenderFault></member>'
      const answer = await pass(body.replace(/member\.2\./g, 'ignored.2.'))
      return { ...answer, body: answer.body.replace('<Failed></Failed>', `<Failed>${failed}</Failed>`) }
    }
    expect(await publish(publisher, messagesTo(orders, 3))).toMatchObject([
      { status: 'published' },
      {
        status: 'retry',
        error: { code: 'PUBLISH_FAILED', message: `sns: topic "${orders}.fifo": InternalError: no` },
      },
      { status: 'published' },
    ])
  })

  it.each([
    ['throttling', 'Throttled', 400, 'takes no more for a moment'],
    ['throttling of all requests', 'Throttling', 400, 'takes no more for a moment'],
    ['credentials that ran out', 'ExpiredToken', 403, 'AWS accepts no credentials'],
    ['a role that may not', 'AuthorizationError', 403, `topic "${orders}.fifo" may not be used`],
    ['a key that may not be used', 'KMSAccessDenied', 400, 'the topic and its key'],
    ['a fault of AWS', 'InternalError', 500, 'InternalError'],
  ])('%s is an outage', async (_what, code, status, text) => {
    answerBatches(code, status)
    expect(await publish(publisher, messagesTo(orders, 2))).toMatchObject(
      [1, 2].map(() => ({
        status: 'retry',
        error: { code: 'BROKER_UNAVAILABLE', message: expect.stringContaining(text) },
      })),
    )
  })

  it('a message that SNS refuses is a dead letter, alone', async () => {
    front.handler = ({ body }, pass) =>
      body.includes('to+be+refused') || body.includes('to%20be%20refused')
        ? snsError('InvalidParameter')
        : pass()
    const messages = messagesTo(orders, 3)
    messages[1] = testMessage({ topic: orders, body: '"to be refused"' })
    expect(await publish(publisher, messages)).toMatchObject([
      { status: 'published' },
      { status: 'reject', error: { code: 'EVENT_REJECTED', details: { answer: 'InvalidParameter' } } },
      { status: 'published' },
    ])
  })

  it('a topic that is missing is an outage, and none of the others', async () => {
    const message = testMessage({ topic: `never-${orders}` })
    const error = {
      code: 'BROKER_UNAVAILABLE',
      message:
        `sns: there is no topic "never-${orders}.fifo" in eu-central-1 (NotFound): create it, or give the event another ` +
        'topic by a route',
    }
    expect(await publishOne(publisher, message)).toMatchObject({ status: 'retry', error })
    await publishOne(publisher, testMessage({ topic: orders }))
    expect(await publishOne(publisher, message)).toMatchObject({ error: { code: 'PUBLISH_FAILED' } })
  })
})
