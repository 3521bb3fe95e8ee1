import { describe, expect, it } from 'vitest'
import type { Binding } from '../../src/publishing/bindings.ts'
import { type EncoderOptions, createEncoder } from '../../src/publishing/format.ts'
import { isReservedHeader } from '../../src/publishing/headers.ts'
import type { Message } from '../../src/publishing/publisher.ts'
import { testMessage } from '../../src/testing/test-message.ts'

const eventId = '0190a1b2-0000-7000-8000-000000000001'
const order = (overrides: Partial<Message> = {}) =>
  testMessage({
    eventId,
    aggregateType: 'order',
    aggregateId: 'o-1',
    eventType: 'order.created',
    body: '{"total": 1.10, "n": 9007199254740993}',
    ...overrides,
  })

function encode(message: Message, options: Partial<EncoderOptions> & { binding: Binding }) {
  const dropped: string[] = []
  const encoder = createEncoder(options)
  encoder.observe({ headerDropped: ({ header }) => dropped.push(header) })
  const encoded = encoder.encode(message)
  return {
    ...encoded,
    names: encoded.headers.map(([name]) => name),
    record: Object.fromEntries(encoded.headers),
    dropped,
  }
}

const everything = order({
  revision: '7',
  operationId: 'op-1',
  replay: 2,
  headers: { zz: 'last', tracestate: 'v=1', traceparent: '00-a-b-01' },
})

describe('format debezium', () => {
  it('has its headers in one order, then the trace, then the own ones', () => {
    const { headers, body, contentType } = encode(everything, { binding: 'kafka' })
    expect(headers).toEqual([
      ['id', eventId],
      ['eventType', 'order.created'],
      ['aggregateType', 'order'],
      ['aggregateId', 'o-1'],
      ['createdAt', '2025-03-04T05:06:07.08Z'],
      ['revision', '7'],
      ['operationId', 'op-1'],
      ['replay', '2'],
      ['traceparent', '00-a-b-01'],
      ['tracestate', 'v=1'],
      ['zz', 'last'],
    ])
    expect(body).toBe(everything.body)
    expect(contentType).toBe('application/json')
  })

  it('leaves out what is not set', () => {
    expect(encode(order(), { binding: 'amqp' }).names).toEqual([
      'id',
      'eventType',
      'aggregateType',
      'aggregateId',
      'createdAt',
    ])
  })

  it('has names of their own for HTTP', () => {
    expect(encode(everything, { binding: 'http' }).names).toEqual([
      'x-waybill-event-id',
      'x-waybill-event-type',
      'x-waybill-aggregate-type',
      'x-waybill-aggregate-id',
      'x-waybill-created-at',
      'x-waybill-revision',
      'x-waybill-operation-id',
      'x-waybill-replay',
      'traceparent',
      'tracestate',
      'zz',
    ])
  })

  it('never lets an own header take the place of one of these, however it is written', () => {
    const headers = {
      id: 'forged',
      EVENTTYPE: 'forged',
      replay: 'free',
      Traceparent: 'x',
      traceparent: '00-a-b-01',
    }
    const { record, dropped } = encode(order({ headers }), { binding: 'kafka' })
    expect(record).toMatchObject({
      id: eventId,
      eventType: 'order.created',
      replay: 'free',
      traceparent: '00-a-b-01',
    })
    expect(record).not.toHaveProperty('EVENTTYPE')
    expect(dropped).toEqual(['id', 'EVENTTYPE', 'Traceparent'])
  })

  it('carries own headers with strange names where the broker can', () => {
    const headers = JSON.parse('{"__proto__": "a", "with space": "b", "ü": "c", "constructor": "d"}') as never
    expect(encode(order({ headers }), { binding: 'amqp' }).headers.slice(5)).toEqual([
      ['__proto__', 'a'],
      ['with space', 'b'],
      ['ü', 'c'],
      ['constructor', 'd'],
    ])
  })

  it('drops a trace that no tracer can read', () => {
    const { dropped, names } = encode(order({ headers: { traceparent: '00\n-evil: 1' } }), {
      binding: 'kafka',
    })
    expect(dropped).toEqual(['traceparent'])
    expect(names).not.toContain('traceparent')
  })
})

describe('a dropped header', () => {
  it('is told once for each name', () => {
    const drops: unknown[] = []
    const encoder = createEncoder({ binding: 'http' })
    encoder.encode(order({ headers: { host: 'x' } }))
    encoder.observe({ headerDropped: (drop) => drops.push(drop) })
    for (let i = 0; i < 3; i++)
      encoder.encode(order({ headers: { host: 'x', Host: 'y', 'webhook-id': 'z' } }))
    expect(drops).toEqual([
      { eventId, header: 'host' },
      { eventId, header: 'webhook-id' },
    ])
  })

  it('may be one that the destination reserves for itself', () => {
    const { dropped, record } = encode(order({ headers: { 'X-Api-Key': 'a', ok: 'b' } }), {
      binding: 'http',
      reserved: ['x-api-key'],
    })
    expect(dropped).toEqual(['X-Api-Key'])
    expect(record).toMatchObject({ ok: 'b' })
  })

  it.each([
    'host',
    'Content-Length',
    'AUTHORIZATION',
    'webhook-signature',
    'x-waybill-event-id',
    'connection',
    'proxy-authorization',
    'content-type',
  ])('%s is one for HTTP', (name) => {
    expect(isReservedHeader(name)).toBe(true)
    expect(encode(order({ headers: { [name]: 'x' } }), { binding: 'http' }).dropped).toEqual([name])
    expect(encode(order({ headers: { [name]: 'x' } }), { binding: 'amqp' }).dropped).toEqual([])
  })

  it.each(['x-tenant', 'webhook', 'hostname', 'x-waybil'])('%s is none', (name) => {
    expect(isReservedHeader(name)).toBe(false)
  })
})

describe('HTTP', () => {
  it.each([
    ["plain-text_1.0~!#$&'()*+,/:;<=>?@[]^`{|}", "plain-text_1.0~!#$&'()*+,/:;<=>?@[]^`{|}"],
    ['a b', 'a%20b'],
    ['100%', '100%25'],
    ['"quoted"', '%22quoted%22'],
    ['Zoë 🚚', 'Zo%C3%AB%20%F0%9F%9A%9A'],
    ['line\r\nInjected: yes', 'line%0D%0AInjected:%20yes'],
    ['tab\tdel\u007f', 'tab%09del%7F'],
    ['', ''],
  ])('writes the value %j as %j', (value, text) => {
    const { record } = encode(order({ aggregateId: value, headers: { own: value } }), { binding: 'http' })
    expect(record['own']).toBe(text)
    expect(record['x-waybill-aggregate-id']).toBe(text)
    expect(decodeURIComponent(text)).toBe(value)
  })

  it('passes a tracestate as W3C writes it', () => {
    const { record } = encode(order({ headers: { tracestate: 'a=1, b=50%' } }), { binding: 'http' })
    expect(record['tracestate']).toBe('a=1, b=50%')
  })

  it.each(['with space', 'ü', 'a:b', 'a\nb', ''])('refuses the name %j and says so', (name) => {
    expect(() => encode(order({ headers: { [name]: 'x' } }), { binding: 'http' })).toThrow(
      expect.objectContaining({
        code: 'EVENT_UNDELIVERABLE',
        message: expect.stringContaining(`header ${JSON.stringify(name)} has a name that HTTP cannot carry`),
      }),
    )
  })
})

describe('AMQP', () => {
  it('refuses a name of more than 255 bytes', () => {
    expect(
      encode(order({ headers: { ['n'.repeat(255)]: 'x' } }), { binding: 'amqp' }).names.at(-1),
    ).toHaveLength(255)
    expect(() => encode(order({ headers: { ['ü'.repeat(128)]: 'x' } }), { binding: 'amqp' })).toThrow(
      /more than 255 bytes/,
    )
  })
})

describe('NATS', () => {
  it('has values as one line of ASCII each', () => {
    const { record } = encode(order({ aggregateId: 'Zoë 1', headers: { a: 'x\r\nNats-Rollup: all' } }), {
      binding: 'nats',
    })
    expect(record).toMatchObject({ aggregateId: 'Zo%C3%AB%201', a: 'x%0D%0ANats-Rollup:%20all' })
  })

  it('leaves out what JetStream would obey, and refuses a name that is no header', () => {
    const { dropped, names } = encode(order({ headers: { 'NATS-Rollup': 'all', 'x(y)': 'x' } }), {
      binding: 'nats',
    })
    expect(dropped).toEqual(['NATS-Rollup'])
    expect(names).toContain('x(y)')
    for (const name of ['a b', 'a:b', 'ü', '']) {
      expect(() => encode(order({ headers: { [name]: 'x' } }), { binding: 'nats' })).toThrow(
        /NATS cannot carry/,
      )
    }
  })
})

describe('Redis', () => {
  it('has its body as a field of that name, which no header takes', () => {
    const { dropped, record } = encode(order({ headers: { Body: 'x', 'any\nname ü': 'ü\n' } }), {
      binding: 'redis',
    })
    expect(dropped).toEqual(['Body'])
    expect(record).toMatchObject({ 'any\nname ü': 'ü\n' })
  })
})

describe('format cloudevents', () => {
  const cloud = (message: Message) => ({ ...message, format: 'cloudevents' as const })

  it.each([
    ['kafka', 'ce_', ['content-type', 'application/json']],
    ['nats', 'ce-', ['content-type', 'application/json']],
    ['redis', 'ce_', ['content-type', 'application/json']],
    ['http', 'ce-', undefined],
    ['amqp', 'cloudEvents:', undefined],
  ] as const)('in %s has its attributes with the prefix %s', (binding, prefix, contentType) => {
    const { headers, body } = encode(cloud(everything), { binding })
    expect(headers).toEqual([
      [`${prefix}specversion`, '1.0'],
      [`${prefix}id`, eventId],
      [`${prefix}source`, '/waybill/order'],
      [`${prefix}type`, 'order.created'],
      [`${prefix}subject`, 'o-1'],
      [`${prefix}time`, '2025-03-04T05:06:07.08Z'],
      [`${prefix}aggregatetype`, 'order'],
      [`${prefix}partitionkey`, 'o-1'],
      [`${prefix}revision`, '7'],
      [`${prefix}operationid`, 'op-1'],
      [`${prefix}replay`, '2'],
      [`${prefix}traceparent`, '00-a-b-01'],
      [`${prefix}tracestate`, 'v=1'],
      ...(contentType === undefined ? [] : [contentType]),
      ['traceparent', '00-a-b-01'],
      ['tracestate', 'v=1'],
      ['zz', 'last'],
    ])
    expect(body).toBe(everything.body)
    for (const [name] of headers.slice(0, 13)) expect(name.slice(prefix.length)).toMatch(/^[a-z0-9]{1,20}$/)
  })

  it('takes the first part of its source from the configuration', () => {
    const { record } = encode(cloud(order({ aggregateType: 'a b/c' })), {
      binding: 'kafka',
      cloudEventsSource: 'https://shop.test',
    })
    expect(record['ce_source']).toBe('https://shop.test/a%20b%2Fc')
  })

  it('lets no own header pose as an attribute', () => {
    const { dropped, record } = encode(
      cloud(order({ headers: { 'CE-id': 'forged', 'ce-extra': 'x', cex: 'y' } })),
      {
        binding: 'http',
      },
    )
    expect(dropped).toEqual(['CE-id', 'ce-extra'])
    expect(record).toMatchObject({ 'ce-id': eventId, cex: 'y' })
  })

  it('has percent-encoded values in HTTP', () => {
    expect(encode(cloud(order({ aggregateId: 'Zoë 1' })), { binding: 'http' }).record['ce-subject']).toBe(
      'Zo%C3%AB%201',
    )
  })
})

describe('format cloudevents-structured', () => {
  const structured = (message: Message) => ({ ...message, format: 'cloudevents-structured' as const })

  it('embeds the payload as it is', () => {
    const { body, contentType } = encode(structured(everything), { binding: 'http' })
    expect(contentType).toBe('application/cloudevents+json; charset=utf-8')
    expect(body.endsWith(`,"data":${everything.body}}`)).toBe(true)
    expect(JSON.parse(body)).toEqual({
      specversion: '1.0',
      id: eventId,
      source: '/waybill/order',
      type: 'order.created',
      subject: 'o-1',
      time: '2025-03-04T05:06:07.08Z',
      aggregatetype: 'order',
      partitionkey: 'o-1',
      revision: '7',
      operationid: 'op-1',
      replay: 2,
      traceparent: '00-a-b-01',
      tracestate: 'v=1',
      datacontenttype: 'application/json',
      data: JSON.parse(everything.body),
    })
  })

  it('sends the own headers beside it', () => {
    expect(encode(structured(everything), { binding: 'kafka' }).headers).toEqual([
      ['content-type', 'application/cloudevents+json; charset=utf-8'],
      ['traceparent', '00-a-b-01'],
      ['tracestate', 'v=1'],
      ['zz', 'last'],
    ])
  })

  it('escapes whatever the names hold', () => {
    const { body } = encode(structured(order({ aggregateId: 'a"b\\\n', body: '1.10' })), { binding: 'plain' })
    expect(JSON.parse(body)).toMatchObject({ subject: 'a"b\\\n' })
    expect(body).toMatch(/,"data":1\.10\}$/)
  })
})
