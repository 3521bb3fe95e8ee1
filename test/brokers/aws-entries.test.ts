import { describe, expect, it } from 'vitest'
import { toBatches, toEntry } from '../../src/brokers/aws/entries.ts'
import { createPlaces } from '../../src/brokers/aws/names.ts'
import { createEncoder } from '../../src/publishing/format.ts'
import type { Message } from '../../src/publishing/publisher.ts'
import { testMessage } from '../../src/testing/test-message.ts'

const places = createPlaces('{topic}.fifo', { kind: 'queue', maxLength: 80 })
const encoder = createEncoder({ binding: 'sqs' })

function entry(overrides: Partial<Message> = {}, { index = 0, maxMessageBytes = 262_144 } = {}) {
  return toEntry(testMessage(overrides), index, { places, encoder, maxMessageBytes })
}

/** Names and values of the attributes. */
function attributesOf(overrides: Partial<Message>): Record<string, string> {
  const { attributes } = entry(overrides)
  return Object.fromEntries(Object.entries(attributes).map(([name, { StringValue }]) => [name, StringValue]))
}

/** Everything that a message can have at once. */
const full: Partial<Message> = {
  eventId: 'e-1',
  messageId: 'e-1.r2',
  replay: 2,
  aggregateType: 'order',
  aggregateId: 'o-1',
  eventType: 'order.created',
  revision: '7',
  operationId: 'op',
  headers: { traceparent: '00-1-2-01', tracestate: 'a=b', tenant: 'north', region: '' },
}

describe('the attributes of a message', () => {
  it('are ours, and the own headers as one', () => {
    const { attributes } = entry({ ...full, headers: { tenant: 'north' } })
    expect(Object.keys(attributes)).toEqual([
      'id',
      'eventType',
      'aggregateType',
      'aggregateId',
      'createdAt',
      'revision',
      'operationId',
      'replay',
      'headers',
    ])
    expect(attributes['headers']).toEqual({ DataType: 'String', StringValue: '{"tenant":"north"}' })
  })

  it('are never more than ten: what comes last goes to the own headers', () => {
    const attributes = attributesOf(full)
    expect(Object.keys(attributes)).toHaveLength(10)
    expect(attributes['traceparent']).toBe('00-1-2-01')
    expect(JSON.parse(attributes['headers']!)).toEqual({ tracestate: 'a=b', tenant: 'north', region: '' })
  })

  it('are ten without own headers, if there are ten', () => {
    const attributes = attributesOf({ ...full, headers: { traceparent: '00-1-2-01', tracestate: 'a=b' } })
    expect(Object.keys(attributes)).toHaveLength(10)
    expect(attributes['tracestate']).toBe('a=b')
  })

  it('are never more than ten as a CloudEvent either', () => {
    const attributes = attributesOf({ ...full, format: 'cloudevents' })
    expect(Object.keys(attributes)).toHaveLength(10)
    expect(attributes).toMatchObject({ 'ce-specversion': '1.0', 'ce-id': 'e-1', 'ce-revision': '7' })
    expect(JSON.parse(attributes['headers']!)).toEqual({
      'ce-operationid': 'op',
      'ce-replay': '2',
      'ce-traceparent': '00-1-2-01',
      'ce-tracestate': 'a=b',
      'content-type': 'application/json',
      traceparent: '00-1-2-01',
      tracestate: 'a=b',
      tenant: 'north',
      region: '',
    })
  })

  it('hold what AWS takes; what it does not take is escaped among the own headers', () => {
    const aggregateId = 'a\u0001\uFFFE\uFFFF'
    const attributes = attributesOf({
      ...full,
      aggregateId,
      operationId: '',
      headers: { 'ä\uFFFF': '\u0000' },
    })
    for (const value of Object.values(attributes)) expect(value).toMatch(/^[\u0020-\uFFFD]+$/)
    expect(attributes).not.toHaveProperty('aggregateId')
    expect(JSON.parse(attributes['headers']!)).toEqual({ aggregateId, operationId: '', 'ä\uFFFF': '\u0000' })
  })

  it('have own headers of any name', () => {
    const headers = Object.fromEntries(
      ['__proto__', '1', 'headers', 'AWS.x', '.', 'with space', 'n'.repeat(300)].map((name) => [name, 'v']),
    )
    expect(Object.entries(JSON.parse(attributesOf({ headers })['headers']!) as object).sort()).toEqual(
      Object.entries(headers).sort(),
    )
  })

  it('cannot be replaced by own headers', () => {
    const dropped: string[] = []
    encoder.observe({ headerDropped: ({ header }) => dropped.push(header) })
    const attributes = attributesOf({ eventId: 'e-1', headers: { ID: 'forged', id: 'forged' } })
    expect(attributes['id']).toBe('e-1')
    expect(attributes).not.toHaveProperty('headers')
    expect(dropped).toEqual(['ID'])
  })
})

describe('the size of a message', () => {
  it('counts the body, and name, type and value of each attribute', () => {
    const { bytes, attributes, body } = entry({ headers: { x: 'ü' } })
    const parts = Object.entries(attributes).flatMap(([name, value]) => [
      name,
      value.DataType,
      value.StringValue,
    ])
    expect(bytes).toBe(Buffer.byteLength(body + parts.join('')))
    expect(entry({ headers: { x: 'ü' } }, { maxMessageBytes: bytes }).bytes).toBe(bytes)
    expect(() => entry({ headers: { x: 'ü' } }, { maxMessageBytes: bytes - 1 })).toThrow(
      `body and headers have ${bytes} bytes, more than the ${bytes - 1} of maxMessageBytes`,
    )
  })

  it.each(['"\uFFFE"', '"\uFFFF"', '"\uD800"'])(
    'is not asked for where the payload cannot be carried: %j',
    (body) => {
      expect(() => entry({ body })).toThrow(/the payload holds a character that AWS does not carry/)
    },
  )
})

describe('the requests of a call', () => {
  const sizes = (batches: readonly (readonly { index: number }[])[]) =>
    batches.map((batch) => batch.map(({ index }) => index))
  const entries = (count: number, overrides: (i: number) => Partial<Message> = () => ({})) =>
    Array.from({ length: count }, (_, index) => entry(overrides(index), { index }))

  it('have ten messages at most', () => {
    expect(toBatches(entries(25), 262_144).map((batch) => batch.length)).toEqual([10, 10, 5])
  })

  it('are each for one queue', () => {
    const topics = ['a', 'b']
    const batches = toBatches(
      entries(4, (i) => ({ topic: topics[i % 2]! })),
      262_144,
    )
    expect(sizes(batches)).toEqual([
      [0, 2],
      [1, 3],
    ])
  })

  it('are as large as allowed, and not by a byte larger', () => {
    const [one] = entries(1)
    expect(toBatches(entries(4), one!.bytes * 2).map((batch) => batch.length)).toEqual([2, 2])
    expect(toBatches(entries(4), one!.bytes * 2 - 1).map((batch) => batch.length)).toEqual([1, 1, 1, 1])
  })
})
