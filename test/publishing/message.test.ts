import { describe, expect, it } from 'vitest'
import { createMessage, routableEvent } from '../../src/publishing/message.ts'
import { storedEvent } from '../support/messages.ts'

const target = { to: 'bus' }

describe('createMessage', () => {
  it('takes everything from the row as it is, and the topic from the aggregate type', () => {
    const message = createMessage(
      storedEvent({ body: '{"total": 1.10}', revision: '9007199254740993', operationId: 'op-1' }),
      target,
      'debezium',
    )
    expect(message).toEqual({
      eventId: '0190a1b2-0000-7000-8000-000000000001',
      messageId: '0190a1b2-0000-7000-8000-000000000001',
      replay: null,
      aggregateType: 'order',
      aggregateId: 'o-1',
      eventType: 'order.created',
      topic: 'outbox.event.order',
      body: '{"total": 1.10}',
      createdAt: '2025-03-04T05:06:07.08Z',
      revision: '9007199254740993',
      operationId: 'op-1',
      headers: {},
      format: 'debezium',
      url: null,
    })
  })

  it('gives a replay an id of its own for the broker, and keeps the event id', () => {
    const message = createMessage(storedEvent({ replay: 3 }), target, 'cloudevents')
    expect(message).toMatchObject({
      eventId: '0190a1b2-0000-7000-8000-000000000001',
      messageId: '0190a1b2-0000-7000-8000-000000000001.r3',
      replay: 3,
      format: 'cloudevents',
    })
  })

  it('takes topic and url from the route', () => {
    const message = createMessage(
      storedEvent(),
      { to: 'hook', topic: 'billing', url: 'https://x.test/' },
      'debezium',
    )
    expect(message).toMatchObject({ topic: 'billing', url: 'https://x.test/' })
  })

  it('refuses an empty topic', () => {
    expect(() => createMessage(storedEvent(), { to: 'bus', topic: '' }, 'debezium')).toThrow(
      expect.objectContaining({
        code: 'EVENT_UNDELIVERABLE',
        message: expect.stringContaining('empty topic'),
      }),
    )
  })

  it('refuses a time without an ISO 8601 form', () => {
    for (const createdAtMicros of ['Infinity', '-Infinity', 'NaN', '99999999999999999999']) {
      expect(() => createMessage(storedEvent({ createdAtMicros }), target, 'debezium')).toThrow(/ISO 8601/)
    }
  })

  it('uses the headers that the router has decoded', () => {
    const event = storedEvent({ headers: '{"a": "1"}' })
    const routable = routableEvent(event)
    const { headers } = routable
    expect(createMessage(event, target, 'debezium', routable).headers).toBe(headers)
    expect(headers).toEqual({ a: '1' })
  })
})

describe('the headers of a row', () => {
  const headersOf = (headers: string) => createMessage(storedEvent({ headers }), target, 'debezium').headers

  it('are an object of text', () => {
    expect(headersOf('{"b": "2", "a": "ü \\n", "": "", "__proto__": "x"}')).toEqual(
      JSON.parse('{"b": "2", "a": "ü \\n", "": "", "__proto__": "x"}'),
    )
  })

  it.each([
    ['[]', "the event's headers must be an object, they are an array"],
    ['null', "the event's headers must be an object, they are null"],
    ['"text"', "the event's headers must be an object, they are a string"],
    ['7', "the event's headers must be an object, they are a number"],
    ['{"n": 7}', 'header "n" must be a string, it is a number: write it as text in the headers column'],
    ['{"n": true}', 'header "n" must be a string, it is a boolean: write it as text in the headers column'],
    ['{"n": null}', 'header "n" must be a string, it is null: write it as text in the headers column'],
    [
      '{"ok": "x", "n": {"a": 1}}',
      'header "n" must be a string, it is an object: write it as text in the headers column',
    ],
    ['{"n": ["a"]}', 'header "n" must be a string, it is an array: write it as text in the headers column'],
    ['{"n"', "the event's headers are not JSON"],
  ])('fail alone and say why: %s', (headers, message) => {
    expect(() => headersOf(headers)).toThrow(
      expect.objectContaining({ code: 'EVENT_UNDELIVERABLE', message }),
    )
  })

  it('never put a long name into a message whole', () => {
    const name = 'n'.repeat(10_000)
    expect(() => headersOf(JSON.stringify({ [name]: 1 }))).toThrow(/^header "n{79}…" must be a string/)
  })
})

describe('createdAt', () => {
  const at = (createdAtMicros: string) =>
    createMessage(storedEvent({ createdAtMicros }), target, 'debezium').createdAt

  it.each([
    ['0', '1970-01-01T00:00:00Z'],
    ['1', '1970-01-01T00:00:00.000001Z'],
    ['1741064767000000', '2025-03-04T05:06:07Z'],
    ['1741064767100000', '2025-03-04T05:06:07.1Z'],
    ['1741064767123456', '2025-03-04T05:06:07.123456Z'],
    ['1741064767000010', '2025-03-04T05:06:07.00001Z'],
    ['1741064767999999', '2025-03-04T05:06:07.999999Z'],
    ['-1', '1969-12-31T23:59:59.999999Z'],
    ['-1000000', '1969-12-31T23:59:59Z'],
    ['-999999999999999', '1938-04-24T22:13:20.000001Z'],
    ['9999999999999999', '2286-11-20T17:46:39.999999Z'],
    ['253402300799999999', '9999-12-31T23:59:59.999999Z'],
  ])('of %s microseconds is %s', (micros, text) => {
    expect(at(micros)).toBe(text)
  })

  it('is right whatever was asked for before', () => {
    expect([
      at('1741064767100000'),
      at('1741064768100000'),
      at('1741064767100000'),
      at('1741064767000000'),
    ]).toEqual([
      '2025-03-04T05:06:07.1Z',
      '2025-03-04T05:06:08.1Z',
      '2025-03-04T05:06:07.1Z',
      '2025-03-04T05:06:07Z',
    ])
  })
})
