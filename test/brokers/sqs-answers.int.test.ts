import { beforeAll, beforeEach, describe, expect, it } from 'vitest'
import type { Publisher } from '../../src/publishing/publisher.ts'
import { testMessage } from '../../src/testing/test-message.ts'
import { type AwsServer, startAws } from '../support/aws.ts'
import { type AwsFront, failEntries, sqsError, startAwsFront } from '../support/aws-front.ts'
import { createProxy } from '../support/proxy.ts'
import { describeWith } from '../support/services.ts'
import { type SqsConsumer, consumeSqs } from '../support/sqs-consumer.ts'
import { messagesTo, published, received, sqs } from './aws-bench.ts'
import { publish, publishOne } from './publishing.ts'

describeWith('sqs', 'SQS on a bad day', () => {
  let aws: AwsServer
  let front: AwsFront
  let consumer: SqsConsumer
  let publisher: Publisher
  beforeAll(async () => {
    aws = await startAws()
    consumer = consumeSqs(aws.sqs, await aws.createQueue('orders.fifo'))
    await aws.createQueue('other.fifo')
  })
  beforeEach(async () => {
    front = await startAwsFront(aws.url)
    publisher = await sqs({ endpoint: front.url })
  })

  const sent = () => front.requests.filter(({ action }) => action === 'SendMessageBatch')

  /** Answers to every batch, whatever is in it. */
  function answerBatches(...answer: Parameters<typeof sqsError>): void {
    front.handler = ({ action }, pass) => (action === 'SendMessageBatch' ? sqsError(...answer) : pass())
  }

  describe('one entry of a batch', () => {
    it.each([
      ['its own fault', 'InvalidMessageContents', true, 'reject', 'EVENT_REJECTED'],
      ['a fault that is not known', 'SomethingNew', true, 'reject', 'EVENT_REJECTED'],
      ['a fault of AWS', 'InternalError', false, 'retry', 'PUBLISH_FAILED'],
      ['throttling', 'RequestThrottled', true, 'retry', 'BROKER_UNAVAILABLE'],
      ['the key of the queue', 'KMS.AccessDeniedException', true, 'retry', 'PUBLISH_FAILED'],
    ])('fails alone: %s (%s)', async (_what, Code, SenderFault, status, code) => {
      front.handler = (request, pass) =>
        request.action === 'SendMessageBatch'
          ? failEntries(request, pass, (body) =>
              body === '"bad"' ? { Code, SenderFault, Message: 'AWS said so' } : undefined,
            )
          : pass()
      await publishOne(publisher, testMessage({ topic: 'other' }))
      const messages = messagesTo('orders', 5)
      messages[2] = testMessage({ topic: 'orders', body: '"bad"' })
      const results = await publish(publisher, messages)
      expect(results[2]).toMatchObject({
        status,
        error: { code, message: expect.stringContaining('AWS said so') },
      })
      expect(results.filter(({ status }) => status === 'published')).toHaveLength(4)
      for (const [index, message] of messages.entries()) if (index !== 2) await received(consumer, message)
    })

    it('that the answer does not name is not called published', async () => {
      front.handler = async (request, pass) => {
        const answer = await pass()
        if (request.action !== 'SendMessageBatch') return answer
        const { Successful } = JSON.parse(answer.body) as { Successful: { Id: string }[] }
        return { ...answer, body: JSON.stringify({ Successful: Successful.filter(({ Id }) => Id !== '1') }) }
      }
      expect(await publish(publisher, messagesTo('orders', 3))).toMatchObject([
        { status: 'published' },
        {
          status: 'retry',
          error: { code: 'PUBLISH_TIMEOUT', message: expect.stringContaining('does not say') },
        },
        { status: 'published' },
      ])
    })
  })

  it('a batch that is refused because of one message is sent again, message by message', async () => {
    front.handler = ({ body }, pass) =>
      body.includes('\\"bad\\"') ? sqsError('InvalidParameterValue') : pass()
    const messages = messagesTo('orders', 10)
    messages[3] = testMessage({ topic: 'orders', body: '"bad"' })
    const results = await publish(publisher, messages)
    expect(results[3]).toMatchObject({
      status: 'reject',
      error: { details: { answer: 'InvalidParameterValue' } },
    })
    expect(results.filter(({ status }) => status === 'published')).toHaveLength(9)
    expect(sent()).toHaveLength(11)
    for (const [index, message] of messages.entries()) if (index !== 3) await received(consumer, message)
  })

  describe('a batch', () => {
    it.each([
      ['throttling', 'RequestThrottled', 400, 'takes no more for a moment'],
      ['throttling of all requests', 'ThrottlingException', 400, 'takes no more for a moment'],
      ['credentials that ran out', 'ExpiredTokenException', 403, 'AWS accepts no credentials'],
      ['credentials that are wrong', 'InvalidClientTokenId', 403, 'AWS accepts no credentials'],
      ['a signature that is wrong', 'InvalidSignatureException', 403, 'AWS accepts no credentials'],
      ['a role that may not', 'AccessDeniedException', 403, 'queue "orders.fifo" may not be used'],
      ['a key that may not be used', 'KmsAccessDenied', 400, 'the queue and its key'],
      ['a key that is gone', 'KmsNotFound', 400, 'the queue and its key'],
      ['a key that is asked too often', 'KmsThrottled', 400, 'takes no more for a moment'],
      ['a fault of AWS', 'InternalError', 500, 'InternalError'],
      ['a service that is away', 'ServiceUnavailable', 503, 'ServiceUnavailable'],
    ])('meets %s: an outage', async (_what, code, status, text) => {
      answerBatches(code, status)
      const results = await publish(publisher, messagesTo('orders', 20))
      for (const result of results) {
        expect(result).toMatchObject({
          status: 'retry',
          error: { code: 'BROKER_UNAVAILABLE', message: expect.stringContaining(text) },
        })
      }
      // Two requests, each tried twice at the most: the rest is the relay's to decide.
      expect(sent().length).toBeLessThanOrEqual(4)
    })

    it('that is throttled asks the relay for a pause', async () => {
      answerBatches('ThrottlingException')
      expect(await publishOne(publisher, testMessage({ topic: 'orders' }))).toMatchObject({
        error: { details: { afterMs: 1000 } },
      })
    })

    it('meets a proxy that knows nothing of AWS: an outage', async () => {
      front.handler = () => ({
        status: 502,
        headers: { 'content-type': 'text/html' },
        body: '<h1>Bad gateway</h1>',
      })
      expect(await publishOne(publisher, testMessage({ topic: 'orders' }))).toMatchObject({
        status: 'retry',
        error: { code: 'BROKER_UNAVAILABLE' },
      })
    })

    it('meets an answer that is not known: its messages are tried again, one by one', async () => {
      answerBatches('SomethingNew')
      const results = await publish(publisher, messagesTo('orders', 3))
      for (const result of results) expect(result).toMatchObject({ error: { code: 'PUBLISH_FAILED' } })
    })

    it('that goes to one queue which may not be written to is no outage of the others', async () => {
      front.handler = ({ action, body }, pass) =>
        action === 'SendMessageBatch' && body.includes('/other.fifo') ? sqsError('AccessDenied', 403) : pass()
      await publishOne(publisher, testMessage({ topic: 'orders' }))
      const messages = [testMessage({ topic: 'other' }), testMessage({ topic: 'orders' })]
      expect(await publish(publisher, messages)).toMatchObject([
        { status: 'retry', error: { code: 'PUBLISH_FAILED' } },
        { status: 'published' },
      ])
    })
  })

  it('a look-up that is denied names the permission', async () => {
    front.handler = ({ action }, pass) => (action === 'GetQueueUrl' ? sqsError('AccessDenied', 403) : pass())
    expect(await publishOne(publisher, testMessage({ topic: 'orders' }))).toMatchObject({
      error: {
        code: 'BROKER_UNAVAILABLE',
        message: expect.stringContaining('"orders.fifo" may not be used (AccessDenied'),
      },
    })
  })

  describe('a connection', () => {
    it('that is refused is an outage, told once the server is back', async () => {
      const proxy = await createProxy(aws.port)
      const through = await sqs({ endpoint: `http://127.0.0.1:${proxy.port}` })
      await proxy.down()
      const messages = messagesTo('orders', 2)
      expect(await publish(through, messages)).toMatchObject(
        messages.map(() => ({
          error: {
            code: 'BROKER_UNAVAILABLE',
            message: expect.stringMatching(/no connection to AWS .*ECONNREFUSED/),
          },
        })),
      )
      await proxy.up()
      expect(await publish(through, messages)).toEqual(messages.map(() => published))
    })

    it('that swallows everything costs the call and no more', async () => {
      const proxy = await createProxy(aws.port)
      const through = await sqs({ endpoint: `http://127.0.0.1:${proxy.port}` })
      const message = testMessage({ topic: 'orders' })
      await publishOne(through, testMessage({ topic: 'orders' }))
      proxy.blackhole()
      const started = performance.now()
      expect(await publishOne(through, message, 300)).toMatchObject({ error: { code: 'PUBLISH_TIMEOUT' } })
      expect(performance.now() - started).toBeLessThan(1500)
      proxy.blackhole(false)
      expect(await publishOne(through, message)).toEqual(published)
    })

    it('that was kept and is closed by AWS is not noticed', async () => {
      const proxy = await createProxy(aws.port)
      const through = await sqs({ endpoint: `http://127.0.0.1:${proxy.port}`, connections: 1 })
      for (let i = 0; i < 5; i++) {
        expect(await publishOne(through, testMessage({ topic: 'orders' }))).toEqual(published)
        proxy.reset()
      }
      expect(proxy.accepted).toBeGreaterThanOrEqual(5)
    })

    it('is used for as many requests at once as configured', async () => {
      let active = 0
      let most = 0
      front.handler = async (_request, pass) => {
        most = Math.max(most, ++active)
        await new Promise((resolve) => setTimeout(resolve, 20))
        const answer = await pass()
        active--
        return answer
      }
      const narrow = await sqs({ endpoint: front.url, connections: 2 })
      const messages = messagesTo('orders', 60)
      expect(await publish(narrow, messages)).toEqual(messages.map(() => published))
      expect(most).toBe(2)
    })
  })

  it('a call that is given up while AWS does not answer ends at once, also where nothing was sent yet', async () => {
    front.handler = ({ action }, pass) => (action === 'SendMessageBatch' ? undefined : pass())
    const narrow = await sqs({ endpoint: front.url, connections: 1 })
    const controller = new AbortController()
    const call = narrow.publish(messagesTo('orders', 20), { signal: controller.signal })
    await front.waitFor(2)
    controller.abort()
    const results = await call
    expect(results.slice(0, 10)).toMatchObject(
      results.slice(0, 10).map(() => ({ error: { code: 'PUBLISH_TIMEOUT' } })),
    )
    expect(results.slice(10)).toMatchObject(
      results.slice(10).map(() => ({ afterMs: 0, error: { message: expect.stringContaining('not sent') } })),
    )
    expect(sent()).toHaveLength(1)
    // What nobody waits for is not kept open either.
    await expect.poll(() => front.givenUp.length).toBe(1)
  })

  it('a call that is given up while the URL of its queue is looked up ends at once, and the next one goes on', async () => {
    let release!: () => void
    const held = new Promise<void>((resolve) => (release = resolve))
    front.handler = async ({ action }, pass) => {
      if (action === 'GetQueueUrl') await held
      return pass()
    }
    const message = testMessage({ topic: 'orders' })
    const started = performance.now()
    expect(await publishOne(publisher, message, 100)).toMatchObject({ error: { code: 'PUBLISH_TIMEOUT' } })
    expect(performance.now() - started).toBeLessThan(1000)
    release()
    expect(await publishOne(publisher, message)).toEqual(published)
  })

  it('a URL names the queue, and does not say where what is signed for AWS is sent', async () => {
    const elsewhere = await startAwsFront(aws.url)
    const name = await aws.createQueue('orders.fifo')
    const queue = name.replace(/^http:\/\/[^/]+/, elsewhere.url)
    await withEnvironment({ AWS_ENDPOINT_URL_SQS: front.url }, async () => {
      await publishOne(await sqs({ queue }))
    })
    expect(sent()).toHaveLength(1)
    expect(elsewhere.requests).toEqual([])
  })

  it('closing ends what is under way, and nothing is sent after it', async () => {
    front.handler = ({ action }, pass) => (action === 'SendMessageBatch' ? undefined : pass())
    const call = publish(publisher, messagesTo('orders', 3))
    await front.waitFor(2)
    await publisher.close()
    await publisher.close()
    expect(await call).toMatchObject(
      Array.from({ length: 3 }, () => ({ error: { code: 'PUBLISH_TIMEOUT' } })),
    )
    await expect(publishOne(publisher, testMessage({ topic: 'orders' }))).rejects.toMatchObject({
      code: 'BROKER_UNAVAILABLE',
    })
    expect(sent()).toHaveLength(1)
  })

  describe('the SDK', () => {
    const nowhere = { AWS_CONFIG_FILE: '/nonexistent', AWS_SHARED_CREDENTIALS_FILE: '/nonexistent' }

    it('that finds no credentials is told about in one sentence', async () => {
      const none = {
        AWS_ACCESS_KEY_ID: undefined,
        AWS_SECRET_ACCESS_KEY: undefined,
        AWS_EC2_METADATA_DISABLED: 'true',
      }
      await withEnvironment({ ...nowhere, ...none }, async () => {
        expect(await publishOne(publisher, testMessage({ topic: 'orders' }))).toMatchObject({
          error: {
            code: 'BROKER_UNAVAILABLE',
            message: expect.stringMatching(
              /^sqs: AWS accepts no credentials here \(CredentialsProviderError/,
            ),
          },
        })
      })
      expect(front.requests).toEqual([])
    })

    it('that finds no region is told about in one sentence', async () => {
      await withEnvironment({ ...nowhere, AWS_REGION: undefined }, async () => {
        const without = await sqs({ endpoint: front.url, region: undefined as never })
        expect(await publishOne(without, testMessage({ topic: 'orders' }))).toMatchObject({
          error: {
            code: 'BROKER_UNAVAILABLE',
            message: 'sqs: the AWS SDK finds no region: set the option `region` or the variable AWS_REGION',
          },
        })
      })
    })
  })
})

/** As the process has it while `use` runs; undefined removes a variable. */
async function withEnvironment(changes: Record<string, string | undefined>, use: () => Promise<void>) {
  const before = Object.fromEntries(Object.keys(changes).map((name) => [name, process.env[name]]))
  const apply = (values: Record<string, string | undefined>) => {
    for (const [name, value] of Object.entries(values)) {
      if (value === undefined) delete process.env[name]
      else process.env[name] = value
    }
  }
  apply(changes)
  try {
    await use()
  } finally {
    apply(before)
  }
}
