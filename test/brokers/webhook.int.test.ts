import { Webhook } from 'standardwebhooks'
import { describe, expect, it } from 'vitest'
import { testMessage } from '../../src/testing/test-message.ts'
import { startReceiver } from '../support/receiver.ts'
import { publishOne } from './publishing.ts'
import { webhook } from './webhook-bench.ts'

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
