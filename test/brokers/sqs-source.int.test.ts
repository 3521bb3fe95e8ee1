import { setTimeout as delay } from 'node:timers/promises'
import { SendMessageCommand } from '@aws-sdk/client-sqs'
import { beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { sqsSource } from '../../src/brokers/sqs.ts'
import { decodeDelivery } from '../../src/publishing/decoder.ts'
import type { DeliveryAnswer } from '../../src/publishing/source.ts'
import { testMessage } from '../../src/testing/test-message.ts'
import { type AwsServer, awsRegion, startAws } from '../support/aws.ts'
import { type AwsFront, sqsError, startAwsFront } from '../support/aws-front.ts'
import { createProxy } from '../support/proxy.ts'
import { describeWith } from '../support/services.ts'
import { sns, sqs } from './aws-bench.ts'
import { publish } from './publishing.ts'
import { bodyOf, done, held, read } from './source-bench.ts'

describeWith('sqs', 'the source for SQS', () => {
  let aws: AwsServer
  let front: AwsFront
  let queue: string
  let count = 0
  beforeAll(async () => {
    aws = await startAws()
  })
  beforeEach(async () => {
    front = await startAwsFront(aws.url)
    queue = `source-${++count}.fifo`
    await aws.createQueue(queue)
  })

  const source = (options: Partial<Parameters<typeof sqsSource>[0]> = {}) =>
    sqsSource({ endpoint: front.url, region: awsRegion, queue, waitSeconds: 1, ...options })

  /** Sends messages with these bodies, each of an aggregate of its own unless one is named. */
  async function send(bodies: readonly string[], aggregateId?: string): Promise<void> {
    const publisher = await sqs({ endpoint: aws.url, queue })
    for (const body of bodies) {
      const message = testMessage({ body, ...(aggregateId === undefined ? {} : { aggregateId }) })
      expect(await publish(publisher, [message])).toMatchObject([{ status: 'published' }])
    }
  }
  const actions = (action: string) => front.requests.filter((request) => request.action === action)

  describe('a message at work', () => {
    it('stays hidden for longer than its visibility', async () => {
      await send(['1'])
      const { promise, release } = held<DeliveryAnswer>()
      const first = await read(source({ visibilitySeconds: 2 }), () => promise)
      await first.waitFor(1)
      const second = await read(source({ visibilitySeconds: 2 }))
      await delay(4_500)
      expect(first.deliveries).toHaveLength(1)
      expect(second.deliveries).toEqual([])
      expect(first.deliveries[0]!.lost!.aborted).toBe(false)
      release(done)
      await first.stop()
      await delay(2_500)
      expect(second.deliveries).toEqual([])
    })

    it('is lost, and told so, when it cannot be renewed in time; another one gets it', async () => {
      await send(['1'])
      const proxy = await createProxy(aws.port)
      const { promise, release } = held<DeliveryAnswer>()
      const through = `http://127.0.0.1:${proxy.port}`
      const first = await read(source({ visibilitySeconds: 2, endpoint: through }), () => promise)
      const [delivery] = await first.waitFor(1)
      proxy.blackhole()
      const second = await read(source({ visibilitySeconds: 2 }))
      const [again] = await second.waitFor(1)
      expect(again).toMatchObject({ origin: delivery!.origin, redelivered: true })
      await expect.poll(() => delivery!.lost!.aborted, { timeout: 5_000 }).toBe(true)
      release(done)
    })

    it('is lost as soon as SQS says that it is not ours', async () => {
      await send(['1'])
      front.handler = ({ action, body }, pass) => {
        if (action !== 'ChangeMessageVisibilityBatch') return pass()
        const { Entries } = JSON.parse(body) as { Entries: { Id: string }[] }
        const Failed = Entries.map(({ Id }) => ({ Id, Code: 'ReceiptHandleIsInvalid', SenderFault: true }))
        const headers = { 'content-type': 'application/x-amz-json-1.0' }
        return { status: 200, headers, body: JSON.stringify({ Failed }) }
      }
      const { promise, release } = held<DeliveryAnswer>()
      const { waitFor } = await read(source({ visibilitySeconds: 3 }), () => promise)
      const [delivery] = await waitFor(1)
      await expect.poll(() => delivery!.lost!.aborted, { timeout: 2_500 }).toBe(true)
      release(done)
    })

    it('keeps back the next one of its group, and no other', async () => {
      await send(['1', '2'], 'one')
      await send(['3'], 'two')
      const { promise, release } = held<DeliveryAnswer>()
      const reading = await read(source(), (delivery) => (bodyOf(delivery) === '1' ? promise : done))
      await reading.waitFor(2)
      expect(reading.deliveries.map(bodyOf).sort()).toEqual(['1', '3'])
      await delay(300)
      expect(reading.deliveries).toHaveLength(2)
      release(done)
      expect((await reading.waitFor(3)).map(bodyOf)[2]).toBe('2')
    })
  })

  it('hands over no more than may be without an answer', async () => {
    await send(Array.from({ length: 12 }, (_, i) => String(i)))
    const { promise, release } = held<DeliveryAnswer>()
    const reading = await read(source({ prefetch: 5 }), () => promise)
    await reading.waitFor(5)
    await delay(500)
    expect(reading.deliveries).toHaveLength(5)
    release(done)
    expect((await reading.waitFor(12)).map(bodyOf).sort()).toHaveLength(12)
  })

  it('deletes in batches', async () => {
    await send(Array.from({ length: 30 }, (_, i) => String(i)))
    const { promise, release } = held<DeliveryAnswer>()
    const reading = await read(source(), () => promise)
    await reading.waitFor(30)
    expect(actions('DeleteMessageBatch')).toEqual([])
    release(done)
    await reading.stop()
    const sizes = actions('DeleteMessageBatch').map(
      ({ body }) => (JSON.parse(body) as { Entries: unknown[] }).Entries.length,
    )
    expect(sizes).toEqual([10, 10, 10])
  })

  it('deletes again what could not be deleted', async () => {
    let refusals = 2
    front.handler = ({ action }, pass) =>
      action === 'DeleteMessageBatch' && refusals-- > 0 ? sqsError('InternalError', 500) : pass()
    await send(['1', '2'], 'one')
    // SDK and source together: the second one of the group comes only when the first is gone.
    const reading = await read(source({ visibilitySeconds: 60 }))
    expect((await reading.waitFor(2)).map(bodyOf)).toEqual(['1', '2'])
    expect(actions('DeleteMessageBatch').length).toBeGreaterThanOrEqual(3)
  })

  it('asks for the same messages again when the answer to a request was lost', async () => {
    const reading = await read(source())
    let losses = 1
    front.handler = async ({ action }, pass) => {
      const answer = await pass()
      if (action === 'ReceiveMessage' && losses-- > 0) throw new Error('the connection breaks')
      return answer
    }
    await expect.poll(() => losses, { timeout: 5_000 }).toBeLessThan(0)
    await send(['1'])
    await reading.waitFor(1)
    expect(reading.told).toEqual([])
    const ids = actions('ReceiveMessage').map(
      ({ body }) => (JSON.parse(body) as { ReceiveRequestAttemptId?: string }).ReceiveRequestAttemptId,
    )
    expect(ids).not.toContain(undefined)
    expect(new Set(ids).size).toBe(ids.length - 1)
  })

  it('gives up a request on a connection that died without a word, and goes on', async () => {
    const proxy = await createProxy(aws.port)
    const endpoint = `http://127.0.0.1:${proxy.port}`
    const reading = await read(source({ endpoint, connectTimeoutMs: 100 }))
    await expect.poll(() => proxy.connections).toBeGreaterThan(0)
    proxy.blackhole()
    await expect.poll(() => reading.told, { timeout: 20_000 }).toEqual(['down'])
    proxy.blackhole(false)
    await send(['1'])
    await reading.waitFor(1)
    expect(reading.told).toEqual(['down', 'up'])
  }, 60_000)

  it('gives back what comes while it stops, so that another one has it at once', async () => {
    const reading = await read(source({ waitSeconds: 3, visibilitySeconds: 60 }))
    await front.waitFor(3)
    const stopping = reading.stop()
    await send(['1'])
    await stopping
    expect(reading.deliveries).toEqual([])
    const next = await read(source())
    const started = performance.now()
    expect((await next.waitFor(1)).map(bodyOf)).toEqual(['1'])
    expect(performance.now() - started).toBeLessThan(2_000)
  })

  describe('the start', () => {
    it('fails with one sentence when there is no such queue', async () => {
      await expect(read(source({ queue: 'missing.fifo' }))).rejects.toMatchObject({
        code: 'BROKER_UNAVAILABLE',
        message: expect.stringMatching(
          /^sqs: there is no queue "missing\.fifo" in eu-central-1 \(QueueDoesNotExist\)/,
        ),
      })
    })

    it.each([
      ['AccessDenied', 'may not be used'],
      ['ExpiredToken', 'AWS accepts no credentials'],
    ])('fails with one sentence for %s', async (code, text) => {
      front.handler = ({ action }, pass) => (action === 'ReceiveMessage' ? sqsError(code, 403) : pass())
      await expect(read(source())).rejects.toMatchObject({
        code: 'BROKER_UNAVAILABLE',
        message: expect.stringContaining(text),
      })
    })

    it('waits for AWS when it is away', async () => {
      const proxy = await createProxy(aws.port)
      await proxy.down()
      const reading = await read(source({ endpoint: `http://127.0.0.1:${proxy.port}` }))
      expect(reading.told).toEqual(['down'])
      expect(reading.errors[0]).toMatchObject({
        code: 'BROKER_UNAVAILABLE',
        message: expect.stringContaining('no connection to AWS'),
      })
      await send(['1'])
      await proxy.up()
      await reading.waitFor(1)
      expect(reading.told).toEqual(['down', 'up'])
    })
  })

  it('goes on, told once, after refusals that come later', async () => {
    const reading = await read(source())
    let refusals = 6
    front.handler = ({ action }, pass) =>
      action === 'ReceiveMessage' && refusals-- > 0 ? sqsError('AccessDenied', 403) : pass()
    await expect.poll(() => reading.told, { timeout: 5_000 }).toEqual(['down'])
    await send(['1'])
    await reading.waitFor(1)
    expect(reading.told).toEqual(['down', 'up'])
  })

  it('hands over a message of another sender as it is', async () => {
    const plain = await aws.createQueue(`plain-${count}`)
    const MessageAttributes = {
      text: { DataType: 'String', StringValue: 'ü' },
      number: { DataType: 'Number', StringValue: '7' },
      bytes: { DataType: 'Binary', BinaryValue: Buffer.from('ä') },
    }
    const MessageBody = '{"Type": "Notification", "TopicArn": 5}'
    await aws.sqs.send(new SendMessageCommand({ QueueUrl: plain, MessageBody, MessageAttributes }))
    const reading = await read(source({ queue: plain }))
    const [delivery] = await reading.waitFor(1)
    expect(delivery).toMatchObject({
      binding: 'sqs',
      body: MessageBody,
      contentType: null,
      topic: `plain-${count}`,
      key: null,
      origin: expect.stringMatching(/^sqs:plain-\d+\/[0-9a-f-]{36}$/),
      redelivered: false,
    })
    expect(Object.fromEntries(delivery!.headers)).toEqual({ text: 'ü', number: '7', bytes: 'ä' })
    expect(reading.source).toMatchObject({
      subscription: `sqs:${plain}`,
      capabilities: { ordering: 'none', holding: true },
    })
  })

  it.each([true, false])('takes what SNS passes on, raw delivery: %s', async (raw) => {
    const topicArn = await aws.createTopic(`topic-${count}.fifo`, [queue], { raw })
    const publisher = await sns({ endpoint: aws.url, topicArn })
    const message = testMessage({
      body: '{"ü": 1.10, "n": 9007199254740993}',
      revision: '7',
      headers: { 'x-tenant': 'nörd' },
    })
    expect(await publish(publisher, [message])).toMatchObject([{ status: 'published' }])
    const reading = await read(source())
    const [delivery] = await reading.waitFor(1)
    expect(decodeDelivery(delivery!)).toMatchObject({
      ...{ id: message.eventId, type: message.eventType, body: message.body, revision: 7n },
      ...{ aggregateType: message.aggregateType, aggregateId: message.aggregateId },
      headers: { 'x-tenant': 'nörd' },
    })
  })

  it.each([
    ['an empty object', '{}'],
    ['no JSON', 'Notification of TopicArn'],
    ['null', 'null'],
    [
      'what only looks like SNS',
      '{"Type":"Notification","TopicArn":"a","Message":"m","MessageAttributes":{"a":null,"b":1}}',
    ],
  ])('hands over what is no event, and what comes behind it: %s', async (_, MessageBody) => {
    const plain = await aws.createQueue(`plain-${count}`)
    await aws.sqs.send(new SendMessageCommand({ QueueUrl: plain, MessageBody }))
    const reading = await read(source({ queue: plain }))
    const [delivery] = await reading.waitFor(1)
    expect(() => decodeDelivery(delivery!)).toThrow(/^the message sqs:plain-\d+/)
    await aws.sqs.send(new SendMessageCommand({ QueueUrl: plain, MessageBody: '{"second": true}' }))
    expect(bodyOf((await reading.waitFor(2))[1]!)).toBe('{"second": true}')
    expect(reading.told).toEqual([])
  })

  it('refuses wrong options', () => {
    expect(() => sqsSource({ queue: '{topic}.fifo' })).toThrow(
      /expected sqs\.queue to be the name or the URL/,
    )
    expect(() => sqsSource({ queue: 'a', name: 'in', prefetch: 0 })).toThrow(/expected in\.prefetch/)
  })
})
