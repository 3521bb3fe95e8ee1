import { describe, expect, test } from 'vitest'
import { type Binding, bindings } from '../../src/publishing/bindings.ts'
import { decodeDelivery, substituteId } from '../../src/publishing/decoder.ts'
import { createEncoder } from '../../src/publishing/format.ts'
import type { Message } from '../../src/publishing/publisher.ts'
import type { Delivery } from '../../src/publishing/source.ts'
import { testMessage } from '../../src/testing/index.ts'
import { type MessageFormat, messageFormats } from '../../src/types.ts'

const rich = (format: MessageFormat): Message =>
  testMessage({
    format,
    aggregateType: 'Ordnung ü',
    aggregateId: 'Zoë 100%',
    body: '{"n": 9007199254740993, "text": ",\\"data\\":", "x": {"data": 1.10}}',
    revision: '9007199254740993',
    operationId: 'op "1"',
    replay: 2,
    headers: {
      traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
      'x-tenant': 'nörd 5%',
    },
  })

function deliver(message: Message, binding: Binding, changes: Partial<Delivery> = {}): Delivery {
  const { body, contentType, headers } = createEncoder({ binding }).encode(message)
  return {
    binding,
    body: Buffer.from(body),
    headers,
    contentType: bindings[binding].contentTypeHeader ? null : contentType,
    topic: message.topic,
    key: message.aggregateId,
    origin: 'test:1',
    redelivered: false,
    ...changes,
  }
}

describe.each(Object.keys(bindings) as Binding[])('a message in the terms of %s', (binding) => {
  test.each(messageFormats)('in the format %s gives the event back, byte for byte', (format) => {
    const message = rich(format)
    expect(decodeDelivery(deliver(message, binding))).toEqual({
      id: message.eventId,
      type: message.eventType,
      aggregateType: message.aggregateType,
      aggregateId: message.aggregateId,
      payload: JSON.parse(message.body) as unknown,
      body: message.body,
      revision: 9007199254740993n,
      operationId: 'op "1"',
      createdAt: message.createdAt,
      headers: message.headers,
      replay: 2,
      origin: 'test:1',
    })
  })
})

test('knows a plain event: what was not sent is null', () => {
  const event = decodeDelivery(deliver(testMessage(), 'kafka'))
  expect(event).toMatchObject({ revision: null, operationId: null, replay: null, headers: {} })
})

test('takes the topic and the key where Debezium places no more than the id and the type', () => {
  const delivery = deliver(testMessage({ aggregateId: 'o-7' }), 'kafka', {
    topic: 'outbox.event.order',
    headers: [
      ['id', 'e-1'],
      ['eventType', 'order.created'],
    ],
  })
  expect(decodeDelivery(delivery)).toMatchObject({ aggregateType: 'order', aggregateId: 'o-7' })
})

test('knows a structured CloudEvent of somebody else, whatever the order of its members', () => {
  const body = JSON.stringify({
    data: { a: 1 },
    specversion: '1.0',
    type: 't',
    id: '1',
    source: '/them',
    subject: 's',
  })
  const event = decodeDelivery(
    deliver(testMessage(), 'http', { body, contentType: 'application/cloudevents+json' }),
  )
  expect(event).toMatchObject({
    id: '1',
    type: 't',
    aggregateType: '/them',
    aggregateId: 's',
    payload: { a: 1 },
  })
})

test('unfolds the own headers of SQS from one attribute', () => {
  const base = deliver(testMessage(), 'sqs')
  const delivery = { ...base, headers: [...base.headers, ['headers', '{"x-a":"1"}'] as const] }
  expect(decodeDelivery(delivery).headers).toEqual({ 'x-a': '1' })
})

test('leaves out what HTTP and proxies add', () => {
  const base = deliver(testMessage({ headers: { 'x-tenant': 'north' } }), 'http')
  const headers = [
    ...base.headers,
    ['host', 'h'],
    ['User-Agent', 'u'],
    ['x-forwarded-for', '1'],
    ['webhook-id', 'w'],
  ]
  expect(decodeDelivery({ ...base, headers: headers as never }).headers).toEqual({ 'x-tenant': 'north' })
})

describe('refuses', () => {
  const refusal = (changes: Partial<Delivery>): unknown => {
    try {
      return decodeDelivery(deliver(testMessage({ eventId: 'e-1' }), 'kafka', changes))
    } catch (error) {
      return error
    }
  }
  const without = (name: string, instead: readonly (readonly [string, string])[] = []) => [
    ...deliver(testMessage({ eventId: 'e-1' }), 'kafka').headers.filter(([header]) => header !== name),
    ...instead,
  ]

  test.each<[what: string, changes: Partial<Delivery>, words: RegExp]>([
    ['a message without type', { headers: without('eventType') }, /has no event type/],
    ['a message without aggregate', { headers: without('aggregateId'), key: null }, /has no aggregate id/],
    ['an empty body', { body: '' }, /has no body/],
    ['a body that is no JSON', { body: '{"half": ' }, /no JSON/],
    ['a revision that is none', { headers: without('x', [['revision', '7a']]) }, /revision/],
    ['a revision beyond 64 bits', { headers: without('x', [['revision', '9'.repeat(19)]]) }, /revision/],
  ])('%s, and names the event', (_what, changes, words) => {
    expect(refusal(changes)).toMatchObject({
      code: 'DELIVERY_INVALID',
      message: expect.stringMatching(words) as string,
      details: { eventId: 'e-1' },
    })
  })

  test.each<[what: string, changes: Partial<Delivery>]>([
    ['a message without id', { headers: without('id') }],
    ['a body that is no UTF-8', { body: new Uint8Array([0x22, 0xff, 0x22]) }],
    ['a foreign format', { headers: [], contentType: 'application/xml', body: '<a/>' }],
    ['a batch', { headers: [['content-type', 'application/cloudevents-batch+json']], body: '[]' }],
    [
      'a structured event that is none',
      { headers: [['content-type', 'application/cloudevents+json']], body: '3' },
    ],
  ])('%s, under a substitute that is the same again', (_what, changes) => {
    const eventId = substituteId(deliver(testMessage({ eventId: 'e-1' }), 'kafka', changes))
    expect(eventId).toMatch(/^unidentified:[0-9a-f]{32}$/)
    expect(refusal(changes)).toMatchObject({ code: 'DELIVERY_INVALID', details: { eventId } })
  })

  test('without a word of the payload', () => {
    expect((refusal({ body: '{"card": 4111' }) as Error).message).not.toContain('4111')
  })
})
