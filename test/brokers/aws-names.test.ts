import { describe, expect, it } from 'vitest'
import { createPlaces, deduplicationId, groupId } from '../../src/brokers/aws/names.ts'
import { snsOptions } from '../../src/brokers/sns-options.ts'
import { sqsOptions } from '../../src/brokers/sqs-options.ts'
import { resolveOptions } from '../../src/options.ts'
import { testMessage } from '../../src/testing/test-message.ts'

const rules = { kind: 'queue', maxLength: 80 }
const place = (pattern: string, topic: string) => createPlaces(pattern, rules).placeOf(topic)

describe('the queue or topic of an event', () => {
  it.each([
    ['{topic}', 'outbox.event.order', 'outbox-event-order'],
    ['{topic}.fifo', 'outbox.event.order', 'outbox-event-order.fifo'],
    ['{topic}.fifo', 'orders.fifo', 'orders.fifo'],
    ['prod-{topic}-v2.fifo', 'billing', 'prod-billing-v2.fifo'],
    ['all.fifo', 'any thing/at all', 'all.fifo'],
    [
      'https://sqs.eu-central-1.amazonaws.com/123456789012/{topic}',
      'a.b',
      'https://sqs.eu-central-1.amazonaws.com/123456789012/a-b',
    ],
    [
      'arn:aws:sns:eu-central-1:123456789012:{topic}.fifo',
      'a.b',
      'arn:aws:sns:eu-central-1:123456789012:a-b.fifo',
    ],
    ['{topic}', 'x'.repeat(80), 'x'.repeat(80)],
  ])('%s with the topic %s is %s', (pattern, topic, expected) => {
    expect(place(pattern, topic)).toBe(expected)
  })

  it.each([
    ['{topic}', 'x'.repeat(81)],
    ['{topic}.fifo', 'x'.repeat(76)],
    ['{topic}', 'outbox.event.Bestellung ä'],
    ['{topic}', 'a/b'],
    ['{topic}.fifo', '.fifo'],
    ['https://sqs.eu-central-1.amazonaws.com/123456789012/{topic}', '../other/queue'],
    ['arn:aws:sns:eu-central-1:123456789012:{topic}', 'x:y'],
  ])('%s with the topic %s is none', (pattern, topic) => {
    expect(() => place(pattern, topic)).toThrow(
      expect.objectContaining({ code: 'EVENT_UNDELIVERABLE', message: expect.stringMatching(/by a route$/) }),
    )
  })

  it('of a standard destination is never a FIFO one by its topic', () => {
    expect(place('{topic}', 'orders.fifo')).toBe('orders-fifo')
  })
})

describe('the message group', () => {
  const group = (aggregateType: string, aggregateId: string) =>
    groupId(testMessage({ aggregateType, aggregateId }))

  it('shows the aggregate', () => {
    expect(group('order', 'o-1')).toBe('order/o-1')
    expect(group('order', 'Zoë/1 #')).toBe('order/Zo%C3%AB%2F1%20%23')
  })

  it('is allowed, and different for different aggregates', () => {
    const parts = [
      'a',
      'a/b',
      'b',
      '/',
      '%',
      '%2F',
      '#',
      ' ',
      'ü',
      '🚚',
      '\u0000',
      '\uFFFF',
      '\uD800',
      '\uDC00',
    ]
    parts.push('x'.repeat(63), 'x'.repeat(64), 'x'.repeat(255), '"],["', `#${'0'.repeat(64)}`)
    const pairs = parts.flatMap((type) => parts.map((id) => [type, id] as const))
    const groups = pairs.map(([type, id]) => group(type, id))
    expect(new Set(groups).size).toBe(pairs.length)
    for (const text of groups) expect(text).toMatch(/^[!-~]{1,128}$/)
    expect(groups.filter((text) => text.startsWith('#')).length).toBeGreaterThan(10)
    expect(groups.filter((text) => text.length === 128)).not.toEqual([])
  })
})

describe('the deduplication id', () => {
  const id = (messageId: string) => deduplicationId(testMessage({ messageId }))

  it('is the message id', () => {
    expect(id('0197c3a0-5b7e-7c1d-9a55-3f0c8e3f2b10.r1')).toBe('0197c3a0-5b7e-7c1d-9a55-3f0c8e3f2b10.r1')
  })

  it('is allowed, and different for different ids', () => {
    const ids = ['a', '#', '#a', ' ', 'a b', 'ü', '"', '~', 'x'.repeat(128), 'x'.repeat(129), 'x'.repeat(130)]
    ids.push(id('a b'), id('ü'))
    expect(new Set(ids.map(id)).size).toBe(ids.length)
    for (const text of ids.map(id)) expect(text).toMatch(/^[!-~]{1,128}$/)
  })
})

describe('the options', () => {
  const sqs = (queue: string) => () => resolveOptions(sqsOptions, { queue }, { path: 'sqs' })
  const sns = (topicArn: string) => () => resolveOptions(snsOptions, { topicArn }, { path: 'sns' })

  it.each(['orders', '{topic}', 'a_b-{topic}-c.fifo', 'http://127.0.0.1:4566/000000000000/{topic}.fifo'])(
    'take the queue %s',
    (queue) => expect(sqs(queue)()).toMatchObject({ queue }),
  )

  it.each([
    'orders.v1',
    '.fifo',
    '{topic}{topic}',
    '{type}',
    'x'.repeat(81),
    'https://sqs.eu-central-1.amazonaws.com/{topic}/x',
    'ftp://127.0.0.1/x',
    'https:///x',
    'https://sqs.eu-central-1.amazonaws.com/',
  ])('refuse the queue %s', (queue) => {
    expect(sqs(queue)).toThrow(/expected sqs\.queue to be the name or the URL of a queue/)
  })

  it.each([
    'arn:aws:sns:eu-central-1:123456789012:orders',
    'arn:aws-cn:sns:cn-north-1:123456789012:{topic}.fifo',
  ])('take the topic %s', (topicArn) => expect(sns(topicArn)()).toMatchObject({ topicArn }))

  it.each(['orders', 'arn:aws:sqs:eu-central-1:123456789012:x', 'arn:aws:sns:eu-central-1:123456789012:'])(
    'refuse the topic %s',
    (topicArn) => expect(sns(topicArn)).toThrow(/expected sns\.topicArn to be the ARN/),
  )
})
