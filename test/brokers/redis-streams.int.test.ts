import { beforeAll, describe, expect, it } from 'vitest'
import { delicateBodies, testMessage } from '../../src/testing/test-message.ts'
import { connectRedis, readStream } from '../support/redis-stream.ts'
import { describeWith } from '../support/services.ts'
import { publish, publishOne } from './publishing.ts'
import { newStream, redis, server, startBench, streams } from './redis-streams-bench.ts'

const read = (stream: string) => readStream(redis, stream)()

describeWith('redis-server', 'Redis Streams', () => {
  beforeAll(() => startBench())

  describe('an entry', () => {
    it('has the fields of the reference, in their order', async () => {
      const topic = newStream()
      const message = testMessage({
        aggregateType: 'order',
        aggregateId: 'Zoë 1',
        eventType: 'order.created',
        topic,
        revision: '7',
        headers: { traceparent: '00-a-b-01', 'any name: ü\n': 'any value: ü\u0000\n' },
      })
      const result = await publishOne(await streams({ url: server.url }), message)
      const [[id, fields]] = (await redis.xrange(topic, '-', '+')) as [[string, string[]]]
      expect(result).toEqual({ status: 'published', receipt: `redis:${topic}@${id}` })
      expect(fields).toEqual([
        ...['id', message.eventId, 'eventType', 'order.created', 'aggregateType', 'order'],
        ...['aggregateId', 'Zoë 1', 'createdAt', '2025-03-04T05:06:07.08Z', 'revision', '7'],
        ...['traceparent', '00-a-b-01', 'any name: ü\n', 'any value: ü\u0000\n', 'body', message.body],
      ])
    })

    it('has its payload byte for byte', async () => {
      const topic = newStream()
      await publish(
        await streams({ url: server.url }),
        delicateBodies.map((body) => testMessage({ topic, body })),
      )
      expect((await read(topic)).map(({ body }) => body)).toEqual(delicateBodies)
    })

    it('may be a CloudEvent, binary or structured', async () => {
      const topic = newStream()
      await publish(await streams({ url: server.url }), [
        testMessage({ topic, format: 'cloudevents', body: '1.10' }),
        testMessage({ topic, format: 'cloudevents-structured', body: '1.10' }),
      ])
      const [binary, structured] = await read(topic)
      expect(binary).toMatchObject({
        body: '1.10',
        headers: { ce_source: '/waybill/contract', 'content-type': 'application/json' },
      })
      expect(structured!.headers['content-type']).toBe('application/cloudevents+json; charset=utf-8')
      expect(structured!.body).toMatch(/"data":1\.10\}$/)
    })

    it('has one field "body": an own header of that name is left out and told', async () => {
      const topic = newStream()
      const publisher = await streams({ url: server.url })
      const dropped: string[] = []
      publisher.observe!({ headerDropped: ({ header }) => dropped.push(header) })
      await publish(publisher, [
        testMessage({ topic, body: '1', headers: { Body: 'x', body: 'y', own: 'z' } }),
      ])
      expect(dropped).toEqual(['Body'])
      const [[, fields]] = (await redis.xrange(topic, '-', '+')) as [[string, string[]]]
      expect(fields.filter((field) => /^body$/i.test(field))).toEqual(['body'])
    })

    it('is added again when it is published again: Redis knows no duplicates', async () => {
      const topic = newStream()
      const publisher = await streams({ url: server.url })
      const message = testMessage({ topic })
      await publishOne(publisher, message)
      await publishOne(publisher, { ...message, messageId: `${message.eventId}.r1`, replay: 1 })
      expect((await read(topic)).map(({ headers }) => headers['replay'])).toEqual([undefined, '1'])
    })
  })

  it('goes to the database of the url', async () => {
    const topic = newStream()
    await publishOne(await streams({ url: `${server.url}/3` }), testMessage({ topic }))
    expect(await redis.exists(topic)).toBe(0)
    expect(await connectRedis(`${server.url}/3`).xlen(topic)).toBe(1)
  })

  it('keeps about maxLength entries of a stream', async () => {
    const topic = newStream()
    const publisher = await streams({ url: server.url, maxLength: 100 })
    for (let call = 0; call < 10; call++) {
      await publish(
        publisher,
        Array.from({ length: 100 }, () => testMessage({ topic })),
      )
    }
    const length = await redis.xlen(topic)
    expect(length).toBeGreaterThanOrEqual(100)
    expect(length).toBeLessThan(400)
  })

  describe('the order within a call', () => {
    const events = (topic: string, aggregateId: string, count: number, overrides = {}) =>
      Array.from({ length: count }, () => testMessage({ topic, aggregateId, ...overrides }))

    it('is that of the messages, also with several streams', async () => {
      const [one, two] = [newStream(), newStream()]
      const messages = Array.from({ length: 200 }, (_, i) => testMessage({ topic: i % 3 === 0 ? one : two }))
      const results = await publish(await streams({ url: server.url }), messages)
      expect(results.every(({ status }) => status === 'published')).toBe(true)
      for (const topic of [one, two]) {
        const expected = messages.filter((message) => message.topic === topic).map(({ eventId }) => eventId)
        expect((await read(topic)).map(({ headers }) => headers['id'])).toEqual(expected)
      }
    })

    it('is kept behind an event that cannot be sent: later ones of its aggregate wait', async () => {
      const topic = newStream()
      const publisher = await streams({ url: server.url, maxMessageBytes: 100 })
      const messages = [
        ...events(topic, 'a', 1),
        ...events(topic, 'a', 1, { body: `"${'x'.repeat(100)}"` }),
        ...events(topic, 'a', 1),
        ...events(topic, 'b', 1),
        ...events(topic, 'a', 1, { aggregateType: 'other' }),
      ]
      expect(await publish(publisher, messages)).toMatchObject([
        { status: 'published' },
        {
          status: 'reject',
          error: { message: 'the body has 102 bytes, more than the 100 of maxMessageBytes' },
        },
        { status: 'retry', afterMs: 0, error: { message: expect.stringContaining('an earlier event') } },
        { status: 'published' },
        { status: 'published' },
      ])
      expect(await redis.xlen(topic)).toBe(3)
    })

    it('is kept while the server takes writes and does not, in turn: all entries of a stream or none', async () => {
      const other = connectRedis(server.url)
      const publisher = await streams({ url: server.url })
      const topic = newStream()
      let toggling = true
      const toggle = async () => {
        for (let on = true; toggling; on = !on) await other.config('SET', 'maxmemory', on ? '1' : '0')
        await other.config('SET', 'maxmemory', '0')
      }
      const toggled = toggle()
      const outcomes = { all: 0, none: 0 }
      const body = `"${'x'.repeat(20_000)}"`
      for (let call = 0; call < 2000 && (outcomes.all < 20 || outcomes.none < 20); call++) {
        const results = await publish(publisher, events(topic, 'a', 50, { body }))
        const published = results.filter(({ status }) => status === 'published').length
        expect([0, 50]).toContain(published)
        outcomes[published === 50 ? 'all' : 'none']++
        if (published === 50) continue
        for (const result of results) {
          expect(result).toMatchObject({
            status: 'retry',
            error: { code: 'BROKER_UNAVAILABLE', message: expect.stringContaining('OOM') },
          })
        }
      }
      toggling = false
      await toggled
      expect(outcomes.all).toBeGreaterThanOrEqual(20)
      expect(outcomes.none).toBeGreaterThanOrEqual(20)
      expect(await redis.xlen(topic)).toBe(outcomes.all * 50)
    })
  })

  it('takes what is large together in one call', async () => {
    const topic = newStream()
    const body = `"${'x'.repeat(1_000_000)}"`
    const messages = Array.from({ length: 30 }, () => testMessage({ topic, body }))
    const results = await publish(await streams({ url: server.url }), messages, 20_000)
    expect(results.every(({ status }) => status === 'published')).toBe(true)
    expect(await redis.xlen(topic)).toBe(30)
    await redis.del(topic)
  })
})
