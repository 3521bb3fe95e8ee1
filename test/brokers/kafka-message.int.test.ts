import { beforeAll, expect, it } from 'vitest'
import { delicateBodies, testMessage } from '../../src/testing/test-message.ts'
import { kafkaUrl } from '../support/kafka.ts'
import { consumeTopic, produceWithKcat, readRaw } from '../support/kafka-consumer.ts'
import { describeWith } from '../support/services.ts'
import { kafka, newTopic, publish, publishOne, statuses } from './kafka-bench.ts'

let url: string

async function read(topic: string, count: number) {
  const consumer = consumeTopic(url, topic)
  const messages = await consumer.waitFor(count)
  await consumer.close()
  return messages
}

describeWith('kafka', 'a message in Kafka, as another client reads it,', () => {
  beforeAll(async () => {
    url = await kafkaUrl()
  })

  it('has the key, the headers in their order, and the receipt of where it is', async () => {
    const topic = await newTopic(url)
    const message = testMessage({
      aggregateType: 'order',
      aggregateId: 'Zoë/1',
      eventType: 'order.created',
      topic,
      body: '{"total": 1.10}',
      revision: '7',
      operationId: 'op 1',
      headers: { traceparent: '00-a-b-01', tracestate: 'a=b', 'with space': 'ü', empty: '', ID: 'mine' },
    })
    const replay = { ...message, messageId: `${message.eventId}.r2`, replay: 2, headers: {} }
    const publisher = await kafka(url)
    expect(await publish(publisher, [message, replay])).toEqual([
      { status: 'published', receipt: `kafka:${topic}/0@0` },
      { status: 'published', receipt: `kafka:${topic}/0@1` },
    ])
    const [first, second] = await read(topic, 2)
    const common = [
      ['id', message.eventId],
      ['eventType', 'order.created'],
      ['aggregateType', 'order'],
      ['aggregateId', 'Zoë/1'],
      ['createdAt', '2025-03-04T05:06:07.08Z'],
      ['revision', '7'],
      ['operationId', 'op 1'],
    ]
    expect(first).toMatchObject({ topic, partition: 0, offset: 0, key: 'Zoë/1', body: '{"total": 1.10}' })
    expect(first!.headers).toEqual([
      ...common,
      ['traceparent', '00-a-b-01'],
      ['tracestate', 'a=b'],
      ['with space', 'ü'],
      ['empty', ''],
    ])
    expect(second).toMatchObject({ offset: 1, headers: [...common, ['replay', '2']] })
  })

  it('has its payload byte for byte, compressed or not', async () => {
    const publishers = { none: await kafka(url), gzip: await kafka(url, { compression: 'gzip' }) }
    for (const publisher of Object.values(publishers)) {
      const topic = await newTopic(url)
      const messages = delicateBodies.map((body) => testMessage({ topic, body }))
      expect(statuses(await publish(publisher, messages))).toEqual(messages.map(() => 'published'))
      const bodies = await readRaw(url, topic)
      expect(bodies).toHaveLength(messages.length)
      expect(bodies.every((body, index) => body.equals(Buffer.from(messages[index]!.body)))).toBe(true)
    }
  })

  it('is in the partition where every other client would put its key', async () => {
    const keys = ['o-1', 'Zoë/1', '🚚', ...Array.from({ length: 60 }, (_, index) => `aggregate ${index}`)]
    const [ours, theirs] = [await newTopic(url, { partitions: 7 }), await newTopic(url, { partitions: 7 })]
    const messages = keys.map((aggregateId) => testMessage({ topic: ours, aggregateId }))
    const results = await publish(await kafka(url), messages)
    await produceWithKcat(url, theirs, keys, ['-X', 'partitioner=murmur2'])
    const placed = new Map((await read(theirs, keys.length)).map(({ key, partition }) => [key, partition]))
    expect(new Set(placed.values()).size).toBe(7)
    expect((await read(ours, keys.length)).map(({ key, partition }) => [key, partition]).sort()).toEqual(
      [...placed].sort(),
    )
    for (const [index, result] of results.entries()) {
      expect(result).toMatchObject({
        receipt: expect.stringContaining(`kafka:${ours}/${placed.get(keys[index]!)}@`),
      })
    }
  })

  it('is where its receipt says, whatever was in the same call', async () => {
    const topics = [await newTopic(url, { partitions: 3 }), await newTopic(url, { partitions: 2 })]
    const messages = Array.from({ length: 100 }, (_, index) => testMessage({ topic: topics[index % 2]! }))
    const publisher = await kafka(url)
    const results = [
      ...(await publish(publisher, messages.slice(0, 40))),
      ...(await publish(publisher, messages.slice(40))),
    ]
    const read1 = [...(await read(topics[0]!, 50)), ...(await read(topics[1]!, 50))]
    const found = new Map(
      read1.map(({ topic, partition, offset, headers }) => [
        new Map(headers).get('id'),
        `kafka:${topic}/${partition}@${offset}`,
      ]),
    )
    expect(results).toEqual(
      messages.map(({ eventId }) => ({ status: 'published', receipt: found.get(eventId) })),
    )
  })

  it('may be a CloudEvent, binary or structured', async () => {
    const topic = await newTopic(url)
    const [binary, structured] = [
      testMessage({ topic, format: 'cloudevents', body: '1.10' }),
      testMessage({ topic, format: 'cloudevents-structured', body: '1.10' }),
    ] as const
    const publisher = await kafka(url, { cloudEventsSource: 'https://shop.example.com' })
    await publish(publisher, [binary, structured])
    const [first, second] = await read(topic, 2)
    expect(first!.body).toBe('1.10')
    expect(Object.fromEntries(first!.headers)).toMatchObject({
      ce_specversion: '1.0',
      ce_id: binary.eventId,
      ce_source: 'https://shop.example.com/contract',
      'content-type': 'application/json',
    })
    expect(second!.body).toMatch(/"data":1\.10\}$/)
    expect(second!.headers).toEqual([['content-type', 'application/cloudevents+json; charset=utf-8']])
  })

  it('has whatever own headers there are', async () => {
    const topic = await newTopic(url)
    const headers = JSON.parse(
      `{"__proto__": "p", "constructor": "c", "": "no name", "${'n'.repeat(70_000)}": "long"}`,
    ) as Record<string, string>
    expect(await publishOne(await kafka(url), testMessage({ topic, headers }))).toMatchObject({
      status: 'published',
    })
    const [message] = await read(topic, 1)
    expect(message!.headers.slice(5)).toEqual(Object.entries(headers))
  })

  it('is as large as a broker takes by default, to the byte', async () => {
    const limit = 1_048_588
    const small = testMessage({ topic: await newTopic(url), headers: { more: 'ü'.repeat(5000) } })
    const withBody = (length: number) => ({ ...small, body: `"${'x'.repeat(length - 2)}"` })
    const measured = await publishOne(await kafka(url, { maxMessageBytes: 1024 }), withBody(1_000_000))
    const bytes = Number(/has (\d+) bytes/.exec(String(measured.status === 'reject' && measured.error))![1])
    const largest = 1_000_000 + limit - bytes

    const publisher = await kafka(url)
    expect(publisher.capabilities.maxMessageBytes).toBe(limit)
    expect(await publish(publisher, [withBody(largest), withBody(largest + 1)])).toMatchObject([
      { status: 'published' },
      {
        status: 'reject',
        error: {
          code: 'EVENT_UNDELIVERABLE',
          message: `with key and headers the message has ${limit + 1} bytes, more than the ${limit} of maxMessageBytes`,
        },
      },
    ])
    // The broker agrees, where it is asked.
    const bold = await kafka(url, { maxMessageBytes: limit + 1 })
    expect(await publishOne(bold, withBody(largest + 1))).toMatchObject({
      status: 'reject',
      error: { code: 'EVENT_REJECTED', details: { answer: 'MESSAGE_TOO_LARGE' } },
    })
  })

  it('has a topic by Kafka’s rule, or is undeliverable alone', async () => {
    const good = await newTopic(url)
    const bad = ['a b', 'ü', '.', '..', 'x'.repeat(250), 'a/b', 'a\nb']
    const messages = [good, ...bad, good].map((topic) => testMessage({ topic }))
    const results = await publish(await kafka(url), messages)
    expect(statuses(results)).toEqual(['published', ...bad.map(() => 'reject'), 'published'])
    expect(results[1]).toMatchObject({
      error: {
        code: 'EVENT_UNDELIVERABLE',
        message: expect.stringMatching(/^Kafka has no topic "a b": a name has 1 to 249 of the characters/),
      },
    })
    const longest = 'x'.repeat(249)
    expect(await publishOne(await kafka(url), testMessage({ topic: longest }))).toMatchObject({
      error: { code: 'BROKER_UNAVAILABLE' },
    })
  })
})
