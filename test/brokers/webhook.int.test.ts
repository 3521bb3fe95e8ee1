import { Webhook } from 'standardwebhooks'
import { afterEach, describe, expect, it } from 'vitest'
import { type WebhookOptions, webhookPublisher } from '../../src/brokers/webhook.ts'
import type { Message, Publisher, PublishResult } from '../../src/publishing/publisher.ts'
import { testMessage } from '../../src/testing/test-message.ts'
import { selfSignedCertificate } from '../support/certificate.ts'
import { createProxy } from '../support/proxy.ts'
import { type Receiver, startReceiver } from '../support/receiver.ts'

const publishers: Publisher[] = []
afterEach(async () => {
  await Promise.all(publishers.splice(0).map((publisher) => publisher.close()))
})

function webhook(options: WebhookOptions & { name?: string }): Publisher {
  const publisher = webhookPublisher(options)
  publishers.push(publisher)
  return publisher
}

const publish = (publisher: Publisher, ...messages: Message[]) =>
  publisher.publish(messages, { signal: AbortSignal.timeout(10_000) })

async function publishOne(publisher: Publisher, message = testMessage()): Promise<PublishResult> {
  const [result] = await publish(publisher, message)
  return result!
}

const failure = (promise: Promise<unknown>): Promise<Error> =>
  promise.then(
    () => expect.unreachable('expected a rejection'),
    (error: Error) => error,
  )

describe('a webhook request', () => {
  it('is a POST of the payload with the headers of the reference', async () => {
    const receiver = await startReceiver()
    const message = testMessage({
      aggregateType: 'order',
      aggregateId: 'Zoë/1 "a" 100%:*',
      eventType: 'order.created',
      body: '{"n": 9007199254740993, "total": 1.10}',
      revision: '7',
      operationId: 'op 1',
      headers: { traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01', 'X-Tenant': 'a b' },
    })
    const publisher = webhook({ url: `${receiver.origin}/events?from=outbox` })
    expect(await publishOne(publisher, message)).toEqual({ status: 'published', receipt: 'http:204' })
    const [request] = receiver.requests
    expect(request).toMatchObject({
      method: 'POST',
      path: '/events?from=outbox',
      body: message.body,
      headers: {
        'content-type': 'application/json',
        'content-length': String(Buffer.byteLength(message.body)),
        'user-agent': 'waybill',
        'webhook-id': message.eventId,
        'x-waybill-event-id': message.eventId,
        'x-waybill-event-type': 'order.created',
        'x-waybill-aggregate-type': 'order',
        'x-waybill-aggregate-id': 'Zo%C3%AB/1%20%22a%22%20100%25:*',
        'x-waybill-created-at': '2025-03-04T05:06:07.08Z',
        'x-waybill-revision': '7',
        'x-waybill-operation-id': 'op%201',
        traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
        'x-tenant': 'a%20b',
      },
    })
    expect(request!.headers).not.toHaveProperty('x-waybill-replay')
    expect(request!.headers).not.toHaveProperty('webhook-signature')
    expect(request!.rawHeaders).toContain('X-Tenant')
  })

  it('of a replay has a webhook-id of its own and the event id', async () => {
    const receiver = await startReceiver()
    const message = testMessage()
    await publishOne(webhook({ url: receiver.origin }), {
      ...message,
      messageId: `${message.eventId}.r2`,
      replay: 2,
    })
    expect(receiver.requests[0]!.headers).toMatchObject({
      'webhook-id': `${message.eventId}.r2`,
      'x-waybill-event-id': message.eventId,
      'x-waybill-replay': '2',
    })
  })

  it('is signed so that the reference library accepts it, with each of several secrets', async () => {
    const receiver = await startReceiver()
    const secrets = ['one', 'two'].map(
      (s) => `whsec_${Buffer.from(`a long enough secret ${s}`).toString('base64')}`,
    )
    const body = '{"name": "Zoë", "total": 1.10}'
    await publishOne(webhook({ url: receiver.origin, secret: secrets }), testMessage({ body }))
    const [request] = receiver.requests
    for (const secret of secrets) {
      expect(new Webhook(secret).verify(request!.body, { ...request!.headers })).toEqual(JSON.parse(body))
    }
    expect(() =>
      new Webhook(`whsec_${'A'.repeat(32)}`).verify(request!.body, { ...request!.headers }),
    ).toThrow(/No matching signature/)
  })

  it('in structured CloudEvents is signed as it is sent', async () => {
    const receiver = await startReceiver()
    const publisher = webhook({
      url: receiver.origin,
      secret: 'plain secret',
      cloudEventsSource: 'https://shop.test',
    })
    await publishOne(publisher, testMessage({ format: 'cloudevents-structured', body: '1.10' }))
    const [request] = receiver.requests
    expect(request!.headers['content-type']).toBe('application/cloudevents+json; charset=utf-8')
    expect(request!.body).toMatch(/"source":"https:\/\/shop\.test\/contract".*"data":1\.10\}$/)
    expect(
      new Webhook('plain secret', { format: 'raw' }).verify(request!.body, { ...request!.headers }),
    ).toMatchObject({
      data: 1.1,
    })
  })

  it('in binary CloudEvents has ce- headers', async () => {
    const receiver = await startReceiver()
    await publishOne(
      webhook({ url: receiver.origin }),
      testMessage({ format: 'cloudevents', aggregateId: 'Zoë' }),
    )
    expect(receiver.requests[0]!.headers).toMatchObject({
      'ce-specversion': '1.0',
      'ce-subject': 'Zo%C3%AB',
      'content-type': 'application/json',
    })
    expect(receiver.requests[0]!.headers).not.toHaveProperty('x-waybill-event-id')
  })

  it('carries configured headers, and no own header can replace them', async () => {
    const receiver = await startReceiver()
    const dropped: string[] = []
    const publisher = webhook({
      url: receiver.origin.replace('//', '//user:p%40ss%@'),
      headers: { 'X-Api-Key': 'k-1', 'user-agent': 'shop' },
    })
    publisher.observe!({ headerDropped: ({ header }) => dropped.push(header) })
    await publishOne(
      publisher,
      testMessage({ headers: { 'x-api-key': 'forged', Authorization: 'forged', host: 'evil.test' } }),
    )
    expect(receiver.requests[0]!.headers).toMatchObject({
      'x-api-key': 'k-1',
      'user-agent': 'shop',
      authorization: `Basic ${Buffer.from('user:p%40ss%').toString('base64')}`,
      host: `127.0.0.1:${receiver.port}`,
    })
    expect(dropped.sort()).toEqual(['Authorization', 'host', 'x-api-key'])
  })
})

describe('what a receiver answers', () => {
  it.each([
    [200, 'published', undefined],
    [299, 'published', undefined],
    [302, 'retry', 'BROKER_UNAVAILABLE'],
    [400, 'reject', 'EVENT_REJECTED'],
    [401, 'retry', 'BROKER_UNAVAILABLE'],
    [404, 'reject', 'EVENT_REJECTED'],
    [409, 'retry', 'PUBLISH_FAILED'],
    [410, 'reject', 'EVENT_REJECTED'],
    [429, 'retry', 'BROKER_UNAVAILABLE'],
    [500, 'retry', 'PUBLISH_FAILED'],
    [503, 'retry', 'BROKER_UNAVAILABLE'],
  ])('%i is %s %s', async (code, status, errorCode) => {
    const receiver = await startReceiver(() => code)
    const result = await publishOne(webhook({ url: receiver.origin }))
    expect(result).toMatchObject(
      errorCode === undefined ? { status, receipt: `http:${code}` } : { status, error: { code: errorCode } },
    )
    if (status === 'reject') expect(result).toMatchObject({ error: { details: { answer: `HTTP ${code}` } } })
  })

  it('may ask for a pause, in seconds or until a time', async () => {
    const receiver = await startReceiver((_request, response) => {
      response.writeHead(503, { 'retry-after': '7' }).end()
    })
    const publisher = webhook({ url: receiver.origin })
    expect(await publishOne(publisher)).toMatchObject({
      afterMs: 7000,
      error: { details: { afterMs: 7000 } },
    })
    receiver.respond = (_request, response) => {
      response.writeHead(500, { 'retry-after': new Date(Date.now() + 60_000).toUTCString() }).end()
    }
    const result = await publishOne(publisher)
    expect(result).toMatchObject({ status: 'retry', error: { code: 'PUBLISH_FAILED' } })
    expect((result as { afterMs: number }).afterMs).toBeGreaterThan(55_000)
    expect((result as { afterMs: number }).afterMs).toBeLessThanOrEqual(60_000)
  })

  it('can be given another meaning by status, and by code before that', async () => {
    const receiver = await startReceiver((_request, response) => {
      response.writeHead(409).end('already there')
    })
    expect(
      await publishOne(webhook({ url: receiver.origin, answers: { '409': 'published' } })),
    ).toMatchObject({
      status: 'published',
    })
    const publisher = webhook({
      url: receiver.origin,
      answers: { '409': 'published' },
      classify: ({ status, text }) => (status === 409 && text === 'already there' ? 'reject' : undefined),
    })
    expect(await publishOne(publisher)).toMatchObject({ status: 'reject' })
  })

  it('is shown shortly, on one line, and never with the secrets that were sent', async () => {
    const receiver = await startReceiver(({ headers }, response) => {
      response.writeHead(400).end(`bad\n  key ${headers['authorization']} ${'x'.repeat(10_000)}`)
    })
    const publisher = webhook({
      url: `${receiver.origin}/a-secret-path`,
      headers: { authorization: 'Bearer hunter2' },
    })
    const result = await publishOne(publisher)
    const { message } = (result as { error: Error }).error
    expect(message).toMatch(new RegExp(`^${receiver.origin} answered 400: bad key \\*\\*\\* x+…$`))
    expect(message.length).toBeLessThan(300)
  })

  it('is not followed when it is a redirect', async () => {
    const receiver = await startReceiver(({ path }, response) => {
      if (path === '/new') return 200
      response.writeHead(307, { location: '/new' }).end()
    })
    expect(await publishOne(webhook({ url: `${receiver.origin}/old` }))).toMatchObject({
      status: 'retry',
      error: { code: 'BROKER_UNAVAILABLE', message: expect.stringContaining('redirects are not followed') },
    })
    expect(receiver.requests.map(({ path }) => path)).toEqual(['/old'])
  })

  it('may have a body without end: its status counts', async () => {
    const receiver = await startReceiver((_request, response) => {
      response.writeHead(200)
      const more = () => {
        while (!response.destroyed && response.write('x'.repeat(10_000)));
        if (!response.destroyed) response.once('drain', more)
      }
      more()
    })
    const publisher = webhook({ url: receiver.origin })
    const started = performance.now()
    expect(await publishOne(publisher)).toMatchObject({ status: 'published' })
    expect(await publishOne(publisher)).toMatchObject({ status: 'published' })
    expect(performance.now() - started).toBeLessThan(5000)
  })

  it('may have a body that never ends: its status counts when the time is up', async () => {
    const receiver = await startReceiver((_request, response) => {
      response.writeHead(422).write('and then')
    })
    expect(await publishOne(webhook({ url: receiver.origin, timeoutMs: 100 }))).toMatchObject({
      status: 'reject',
      error: { message: expect.stringMatching(/422: and then$/) },
    })
  })
})

describe('a receiver that does not answer', () => {
  it('is away when no connection can be made', async () => {
    const receiver = await startReceiver()
    await receiver.stop()
    const publisher = webhook({ url: `${receiver.origin}/secret-path` })
    const error = await failure(publish(publisher, testMessage(), testMessage()))
    expect(error).toMatchObject({
      code: 'BROKER_UNAVAILABLE',
      message: expect.stringContaining('ECONNREFUSED'),
    })
    expect(error.message).not.toContain('secret-path')
    await expect(publisher.checkHealth!({ signal: AbortSignal.timeout(5000) })).rejects.toMatchObject({
      code: 'BROKER_UNAVAILABLE',
    })
    await receiver.start()
    await publisher.checkHealth!({ signal: AbortSignal.timeout(5000) })
    expect(await publishOne(publisher)).toMatchObject({ status: 'published' })
  })

  it('is away when its name does not resolve', async () => {
    // A part of a name may have 63 characters: no resolver needs to be asked.
    const error = await failure(publish(webhook({ url: `http://${'x'.repeat(64)}.test/` }), testMessage()))
    expect(error).toMatchObject({ code: 'BROKER_UNAVAILABLE' })
  })

  it('costs only the message that it lets wait too long', async () => {
    const receiver = await startReceiver(({ body }) => (body === '"hang"' ? undefined : 200))
    const publisher = webhook({ url: receiver.origin, timeoutMs: 200 })
    const results = await publish(publisher, testMessage(), testMessage({ body: '"hang"' }), testMessage())
    expect(results).toMatchObject([
      { status: 'published' },
      {
        status: 'retry',
        error: { code: 'PUBLISH_TIMEOUT', message: expect.stringContaining('no answer within 200 ms') },
      },
      { status: 'published' },
    ])
  })

  it('costs only the message whose connection it resets', async () => {
    const receiver = await startReceiver(({ body }, response) => {
      if (body !== '"reset"') return 200
      response.socket!.resetAndDestroy()
    })
    const publisher = webhook({ url: receiver.origin })
    const results = await publish(publisher, testMessage(), testMessage({ body: '"reset"' }), testMessage())
    expect(results).toMatchObject([
      { status: 'published' },
      { status: 'retry', error: { code: 'PUBLISH_TIMEOUT' } },
      { status: 'published' },
    ])
  })

  it('is tried again on a new connection after a black hole', async () => {
    const receiver = await startReceiver()
    const proxy = await createProxy(receiver.port)
    const publisher = webhook({ url: `http://127.0.0.1:${proxy.port}`, timeoutMs: 200 })
    await publishOne(publisher)
    proxy.blackhole()
    expect(await publishOne(publisher)).toMatchObject({ status: 'retry', error: { code: 'PUBLISH_TIMEOUT' } })
    proxy.blackhole(false)
    expect(await publishOne(publisher)).toMatchObject({ status: 'published' })
    expect(receiver.requests).toHaveLength(2)
  })

  it('does not keep a call that is given up', async () => {
    const receiver = await startReceiver(() => undefined)
    const publisher = webhook({ url: receiver.origin, connections: 2 })
    const controller = new AbortController()
    const call = publisher.publish([testMessage(), testMessage(), testMessage()], {
      signal: controller.signal,
    })
    await receiver.waitFor(2)
    controller.abort()
    expect(await call).toMatchObject([
      { status: 'retry', error: { code: 'PUBLISH_TIMEOUT' } },
      { status: 'retry', error: { code: 'PUBLISH_TIMEOUT' } },
      { status: 'retry', error: { code: 'PUBLISH_TIMEOUT', message: expect.stringContaining('not sent') } },
    ])
    expect(receiver.requests).toHaveLength(2)
  })
})

describe('connections', () => {
  it('are as many as configured, over all calls', async () => {
    let active = 0
    let most = 0
    const receiver = await startReceiver(async () => {
      most = Math.max(most, ++active)
      // Held until three are here together; a fourth would be let in by then, too.
      await receiver.waitFor(3)
      await new Promise(setImmediate)
      active--
      return 200
    })
    const proxy = await createProxy(receiver.port)
    const publisher = webhook({ url: `http://127.0.0.1:${proxy.port}`, connections: 3 })
    const calls = Array.from({ length: 4 }, () =>
      publish(publisher, ...Array.from({ length: 10 }, () => testMessage())),
    )
    const results = (await Promise.all(calls)).flat()
    expect(results.every(({ status }) => status === 'published')).toBe(true)
    expect(most).toBe(3)
    expect(proxy.accepted).toBe(3)
    expect(publisher.capabilities).toEqual({ ordering: 'per-call', deduplication: false, maxBatchSize: 3 })
  })
})

describe('https', () => {
  it('needs a certificate that is trusted', async () => {
    const tls = selfSignedCertificate()
    const receiver = await startReceiver(() => 200, tls)
    const error = await failure(publish(webhook({ url: receiver.origin }), testMessage()))
    expect(error).toMatchObject({ code: 'BROKER_UNAVAILABLE', message: expect.stringMatching(/self.signed/) })
    expect(await publishOne(webhook({ url: receiver.origin, ca: tls.cert }))).toMatchObject({
      status: 'published',
    })
    expect(receiver.requests).toHaveLength(1)
  })
})

describe('an address that a route gives', () => {
  const elsewhere = async (respond?: Parameters<typeof startReceiver>[0]): Promise<Receiver> =>
    startReceiver(respond)

  it.each(['127.0.0.1', 'localhost', '[::ffff:127.0.0.1]', '2130706433', '0x7f.1'])(
    'is not connected to when it is private: %s',
    async (host) => {
      const receiver = await elsewhere()
      const proxy = await createProxy(receiver.port)
      const publisher = webhook({ url: receiver.origin })
      const results = await publish(
        publisher,
        testMessage({ url: `http://${host}:${proxy.port}/secret-path` }),
        testMessage(),
      )
      expect(results).toMatchObject([
        {
          status: 'reject',
          error: { code: 'EVENT_UNDELIVERABLE', message: expect.stringContaining('not public') },
        },
        { status: 'published' },
      ])
      expect((results[0] as { error: Error }).error.message).not.toContain('secret-path')
      expect(proxy.accepted).toBe(0)
    },
  )

  it('may be private when that is allowed, and gets no configured headers of another origin', async () => {
    const [home, away] = [await elsewhere(), await elsewhere()]
    const publisher = webhook({
      url: home.origin,
      headers: { authorization: 'Bearer home' },
      secret: 'shared',
      allowPrivateAddresses: true,
    })
    const results = await publish(
      publisher,
      testMessage({ url: `${away.origin}/tenant` }),
      testMessage({ url: `${home.origin}/other` }),
    )
    expect(results).toMatchObject([{ status: 'published' }, { status: 'published' }])
    expect(away.requests[0]).toMatchObject({
      path: '/tenant',
      headers: { 'webhook-signature': expect.any(String) },
    })
    expect(away.requests[0]!.headers).not.toHaveProperty('authorization')
    expect(home.requests[0]).toMatchObject({ path: '/other', headers: { authorization: 'Bearer home' } })
  })

  it('is one of many hosts: what it answers is no word about the others', async () => {
    const busy = await elsewhere((_request, response) => {
      response.writeHead(503, { 'retry-after': '5' }).end()
    })
    const gone = await elsewhere()
    await gone.stop()
    const publisher = webhook({ url: busy.origin, allowPrivateAddresses: true })
    const results = await publish(
      publisher,
      testMessage({ url: busy.origin }),
      testMessage({ url: gone.origin }),
    )
    expect(results).toMatchObject([
      { status: 'retry', error: { code: 'PUBLISH_FAILED' }, afterMs: 5000 },
      { status: 'retry', error: { code: 'PUBLISH_TIMEOUT' } },
    ])
  })

  it.each(['', 'not a url', 'ftp://user:hunter2@x.test/', 'javascript:alert(1)'])(
    'makes its event undeliverable when it is none: %j',
    async (url) => {
      const receiver = await elsewhere()
      const result = await publishOne(webhook({ url: receiver.origin }), testMessage({ url }))
      expect(result).toMatchObject({ status: 'reject', error: { code: 'EVENT_UNDELIVERABLE' } })
      expect((result as { error: Error }).error.message).not.toContain('hunter2')
      expect(receiver.requests).toHaveLength(0)
    },
  )
})

describe('closing', () => {
  it('ends what is under way, and nothing more is sent', async () => {
    const receiver = await startReceiver(() => undefined)
    const publisher = webhook({ url: receiver.origin })
    const call = publish(publisher, testMessage())
    await receiver.waitFor(1)
    await publisher.close()
    expect(await call).toMatchObject([{ status: 'retry', error: { code: 'PUBLISH_TIMEOUT' } }])
    expect(await failure(publish(publisher, testMessage()))).toMatchObject({ code: 'BROKER_UNAVAILABLE' })
    expect(receiver.requests).toHaveLength(1)
  })
})
