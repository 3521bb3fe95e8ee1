import { beforeAll, describe, expect, it } from 'vitest'
import { delicateBodies, testMessage } from '../../src/testing/test-message.ts'
import { describeWith } from '../support/services.ts'
import { nats, server, startBench, stored, stream } from './nats-bench.ts'
import { publish, publishOne } from './publishing.ts'

describeWith('nats-server', 'NATS JetStream', () => {
  beforeAll(() => startBench())

  describe('a message', () => {
    it('has the subject, headers and id of the reference', async () => {
      const message = testMessage({
        aggregateType: 'order',
        aggregateId: 'Zoë 1',
        eventType: 'order.created',
        topic: 'outbox.event.order',
        revision: '7',
        headers: { traceparent: '00-a-b-01', tracestate: 'a=b c', 'x-y': 'ü\n%' },
      })
      const result = await publishOne(await nats({ url: server.url }), message)
      const [got] = await stored(message)
      expect(result).toEqual({ status: 'published', receipt: `nats:OUTBOX@${got!.seq}` })
      expect(got).toEqual({
        subject: 'outbox.event.order',
        seq: got!.seq,
        body: message.body,
        headers: {
          'Nats-Msg-Id': message.eventId,
          id: message.eventId,
          eventType: 'order.created',
          aggregateType: 'order',
          aggregateId: 'Zo%C3%AB%201',
          createdAt: '2025-03-04T05:06:07.08Z',
          revision: '7',
          traceparent: '00-a-b-01',
          tracestate: 'a=b c',
          'x-y': '%C3%BC%0A%25',
        },
      })
    })

    it('has its payload byte for byte', async () => {
      const messages = delicateBodies.map((body) => testMessage({ body }))
      await publish(await nats({ url: server.url }), messages)
      for (const message of messages) expect((await stored(message))[0]?.body).toBe(message.body)
    })

    it('may be a CloudEvent, binary or structured', async () => {
      const [binary, structured] = [
        testMessage({ format: 'cloudevents', body: '1.10', aggregateId: 'Zoë' }),
        testMessage({ format: 'cloudevents-structured', body: '1.10' }),
      ] as const
      await publish(await nats({ url: server.url }), [binary, structured])
      expect((await stored(binary))[0]).toMatchObject({
        body: '1.10',
        headers: {
          'ce-id': binary.eventId,
          'ce-source': '/waybill/contract',
          'ce-subject': 'Zo%C3%AB',
          'content-type': 'application/json',
        },
      })
      const [got] = await stored(structured)
      expect(got!.headers['content-type']).toBe('application/cloudevents+json; charset=utf-8')
      expect(got!.body).toMatch(/"data":1\.10\}$/)
    })

    it('that is published again is confirmed and kept once; a deliberate replay is kept beside it', async () => {
      const publisher = await nats({ url: server.url })
      const first = testMessage()
      const replay = { ...first, messageId: `${first.eventId}.r1`, replay: 1 }
      const original = await publishOne(publisher, first)
      expect(await publishOne(publisher, first)).toEqual(original)
      expect(await stored(first)).toHaveLength(1)
      expect(await publishOne(publisher, replay)).toMatchObject({ status: 'published' })
      const [again] = await stored(replay)
      expect(again!.headers).toMatchObject({ id: first.eventId, replay: '1' })
    })

    it('carries no header that JetStream would obey', async () => {
      const publisher = await nats({ url: server.url })
      const dropped: string[] = []
      publisher.observe!({ headerDropped: ({ header }) => dropped.push(header) })
      const kept = testMessage()
      const message = testMessage({
        headers: { 'Nats-Rollup': 'all', 'nats-msg-id': 'x', 'Nats-Expected-Last-Sequence': '1', own: 'x' },
      })
      await stream.manager.streams.update('OUTBOX', { allow_rollup_hdrs: true })
      expect(await publish(publisher, [kept, message])).toMatchObject([
        { status: 'published' },
        { status: 'published' },
      ])
      expect(dropped).toEqual(['Nats-Rollup', 'nats-msg-id', 'Nats-Expected-Last-Sequence'])
      expect(await stored(kept)).toHaveLength(1)
      expect(Object.keys((await stored(message))[0]!.headers).filter((name) => /^nats/i.test(name))).toEqual([
        'Nats-Msg-Id',
      ])
    })
  })

  describe('what NATS cannot carry', () => {
    const big = (bytes: number) => `"${'x'.repeat(bytes - 2)}"`

    it.each([
      ['a subject with a space', { topic: 'outbox.a b' }, /subject "outbox\.a b" has a space/],
      ['one with a line break', { topic: 'outbox.a\r\nPUB x 0' }, /has a space, a control character/],
      ['one with a wildcard', { topic: 'outbox.event.*' }, /has a space, a control character, \* or >/],
      ['one for all', { topic: 'outbox.>' }, /\* or >/],
      ['one with an empty part', { topic: 'outbox..a' }, /empty part/],
      ['one that ends with a dot', { topic: 'outbox.a.' }, /empty part/],
      ['one that is a request to the server', { topic: '$JS.API.STREAM.PURGE.OUTBOX' }, /the server itself/],
      ['one that is long', { topic: `outbox.${'ü'.repeat(1000)}` }, /more than 2000 bytes/],
      ['a header name with a colon', { headers: { 'a:b': 'x' } }, /header "a:b" has a name that NATS cannot/],
      ['an empty header name', { headers: { '': 'x' } }, /has a name that NATS cannot/],
      [
        'large headers',
        { headers: { big: 'x'.repeat(65_536) } },
        /headers have \d+ bytes, more than the 65535/,
      ],
      ['a large body', { body: big(1_048_577) }, /has \d+ bytes with its headers, more than the 1048576/],
    ])('%s fails its message alone', async (_what, overrides, text) => {
      const messages = Array.from({ length: 20 }, (_, i) => testMessage(i === 7 ? overrides : {}))
      const results = await publish(await nats({ url: server.url }), messages)
      expect(results[7]).toMatchObject({
        status: 'reject',
        error: { code: 'EVENT_UNDELIVERABLE', message: expect.stringMatching(text) },
      })
      expect(results.filter(({ status }) => status === 'published')).toHaveLength(19)
    })

    it('is measured exactly: what is just small enough arrives', async () => {
      const publisher = await nats({ url: server.url, stream: 'OUTBOX' })
      const limit = 1_048_576
      const large = (body: string) => testMessage({ body, headers: { own: 'ü'.repeat(100) } })
      const told = await publishOne(publisher, large(big(limit)))
      const [, bytes] = /message has (\d+) bytes/.exec(String(told.status === 'reject' && told.error))!
      const fits = large(big(limit - (Number(bytes) - limit)))
      const tooLarge = large(big(limit - (Number(bytes) - limit) + 1))
      expect(await publish(publisher, [fits, tooLarge])).toMatchObject([
        { status: 'published' },
        { status: 'reject', error: { message: expect.stringContaining(`has ${limit + 1} bytes`) } },
      ])
      const [got] = await stored(fits)
      expect(got!.body).toBe(fits.body)
      const lines = Object.entries(got!.headers).map(([name, value]) => `${name}: ${value}\r\n`)
      const carried = `NATS/1.0\r\n${lines.join('')}\r\n${fits.body}`
      expect(carried).toHaveLength(limit)

      const headersOf = (length: number) => testMessage({ headers: { own: 'x'.repeat(length) } })
      const [, headerBytes] = /headers have (\d+) bytes/.exec(
        String(((await publishOne(publisher, headersOf(65_535))) as { error?: Error }).error),
      )!
      const room = 65_535 - (Number(headerBytes) - 65_535)
      expect(await publish(publisher, [headersOf(room), headersOf(room + 1)])).toMatchObject([
        { status: 'published' },
        { status: 'reject' },
      ])
    })

    it('is not the long subject that is just short enough', async () => {
      const message = testMessage({ topic: `outbox.${'x'.repeat(1993)}` })
      expect(await publishOne(await nats({ url: server.url }), message)).toMatchObject({
        status: 'published',
      })
    })

    it('is learnt from the server, also for the relay', async () => {
      const publisher = await nats({ url: server.url })
      expect(publisher.capabilities.maxMessageBytes).toBeUndefined()
      await publisher.connect!({ signal: AbortSignal.timeout(5000) })
      expect(publisher.capabilities.maxMessageBytes).toBe(1_048_576)
    })

    it('is no sum: large messages of one call arrive together', async () => {
      const messages = Array.from({ length: 20 }, () => testMessage({ body: big(900_000) }))
      const results = await publish(await nats({ url: server.url }), messages, 20_000)
      expect(results.every(({ status }) => status === 'published')).toBe(true)
      for (const message of messages) expect(await stored(message)).toHaveLength(1)
    })
  })
})
