import { beforeAll, describe, expect, it } from 'vitest'
import { rabbitmqPublisher } from '../../src/brokers/rabbitmq.ts'
import { delicateBodies, testMessage } from '../../src/testing/test-message.ts'
import { connectAmqp, consumeQueue } from '../support/amqp-consumer.ts'
import { describeWith } from '../support/services.ts'
import { closeLater, failure, publish, publishOne } from './publishing.ts'
import { exchange, rabbitmq, received, server, startBench } from './rabbitmq-bench.ts'

describeWith('rabbitmq', 'RabbitMQ', () => {
  beforeAll(startBench)

  describe('a message', () => {
    it('has the properties and headers of the reference', async () => {
      const message = testMessage({
        aggregateType: 'order',
        aggregateId: 'Zoë/1',
        eventType: 'order.created',
        topic: 'outbox.event.order',
        revision: '7',
        headers: { traceparent: '00-a-b-01', 'with space': 'ü' },
      })
      const publisher = await rabbitmq({ url: server.url })
      expect(await publishOne(publisher, message)).toEqual({
        status: 'published',
        receipt: 'rabbitmq:waybill/outbox.event.order',
      })
      expect(await received(message)).toMatchObject({
        exchange,
        routingKey: 'outbox.event.order',
        messageId: message.messageId,
        type: 'order.created',
        timestamp: 1741064767,
        durable: true,
        // What the consumer got as content type; see keepBodies.
        clusterId: 'application/json',
        headers: {
          id: message.eventId,
          eventType: 'order.created',
          aggregateType: 'order',
          aggregateId: 'Zoë/1',
          createdAt: '2025-03-04T05:06:07.08Z',
          revision: '7',
          traceparent: '00-a-b-01',
          'with space': 'ü',
        },
      })
    })

    it('has its payload byte for byte', async () => {
      const messages = delicateBodies.map((body) => testMessage({ body }))
      await publish(await rabbitmq({ url: server.url }), messages)
      for (const message of messages) expect((await received(message)).body).toBe(message.body)
    })

    it('may be a CloudEvent, binary or structured', async () => {
      const publisher = await rabbitmq({ url: server.url })
      const [binary, structured] = [
        testMessage({ format: 'cloudevents', body: '1.10' }),
        testMessage({ format: 'cloudevents-structured', body: '1.10' }),
      ] as const
      await publish(publisher, [binary, structured])
      expect(await received(binary)).toMatchObject({
        body: '1.10',
        clusterId: 'application/json',
        headers: { 'cloudEvents:id': binary.eventId, 'cloudEvents:source': '/waybill/contract' },
      })
      const { body, clusterId } = await received(structured)
      expect(clusterId).toBe('application/cloudevents+json; charset=utf-8')
      expect(body).toMatch(/"data":1\.10\}$/)
    })

    it('from before 1970, or with a type that is too long for the property, is delivered all the same', async () => {
      const eventType = 'ü'.repeat(200)
      const message = testMessage({ createdAt: '1969-12-31T23:59:59Z', eventType })
      expect(await publishOne(await rabbitmq({ url: server.url }), message)).toMatchObject({
        status: 'published',
      })
      const got = await received(message)
      expect(got.headers).toMatchObject({ eventType, createdAt: '1969-12-31T23:59:59Z' })
      expect(got.type).toBeUndefined()
    })

    it('goes to the queue of its topic through the default exchange', async () => {
      const queue = await consumeQueue(server.url, 'jobs')
      const publisher = closeLater(await rabbitmqPublisher({ url: server.url }))
      const message = testMessage({ topic: 'jobs' })
      expect(await publishOne(publisher, message)).toEqual({ status: 'published', receipt: 'rabbitmq:/jobs' })
      expect((await queue.waitFor(1))[0]).toMatchObject({ messageId: message.messageId, exchange: '' })
    })
  })

  describe('what AMQP cannot carry', () => {
    it.each([
      ['a routing key', { topic: `outbox.event.${'ü'.repeat(122)}` }, /routing key .* more than 255 bytes/],
      ['a header name', { headers: { ['n'.repeat(256)]: 'x' } }, /header .* more than 255 bytes/],
      ['headers', { headers: { big: 'x'.repeat(140_000) } }, /headers are larger than the 131072 bytes/],
    ])('%s that is too long fails its message alone', async (_what, overrides, text) => {
      const messages = [testMessage(), testMessage(overrides), testMessage()]
      const results = await publish(await rabbitmq({ url: server.url }), messages)
      expect(results).toMatchObject([
        { status: 'published' },
        { status: 'reject', error: { code: 'EVENT_UNDELIVERABLE', message: expect.stringMatching(text) } },
        { status: 'published' },
      ])
    })

    it('is measured exactly: what is just small enough arrives', async () => {
      const publisher = await rabbitmq({ url: server.url })
      const messages = [
        testMessage({ headers: { ['n'.repeat(255)]: 'x', big: 'x'.repeat(130_000) } }),
        testMessage({ topic: 'k'.repeat(255) }),
      ]
      expect(await publish(publisher, messages)).toMatchObject([
        { status: 'published' },
        { status: 'published' },
      ])
      for (const message of messages) expect((await received(message)).headers).toMatchObject(message.headers)
    })

    it('is known by the frame size of the broker, also when that is small', async () => {
      await server.control('eval', 'application:set_env(rabbit, frame_max, 8192).')
      try {
        const publisher = await rabbitmq({ url: server.url })
        const big = testMessage({ body: `"${'x'.repeat(100_000)}"` })
        const headers = testMessage({ headers: { big: 'x'.repeat(9000) } })
        // The first call finds out.
        expect(await publishOne(publisher, big)).toMatchObject({ status: 'published' })
        expect(await publish(publisher, [big, headers])).toMatchObject([
          { status: 'published' },
          { status: 'reject', error: { message: expect.stringContaining('8192 bytes') } },
        ])
        expect((await received(big)).body).toBe(big.body)
      } finally {
        await server.control('eval', 'application:set_env(rabbit, frame_max, 131072).')
      }
    })
  })

  describe('what the broker says', () => {
    it('about a message that no queue is bound for makes it wait, and its neighbours pass', async () => {
      const admin = await connectAmqp(server.url)
      await admin.exchangeDeclare({ exchange: 'sparse', type: 'topic', durable: true })
      await admin.queueBind({ exchange: 'sparse', queue: 'waybill.all', routingKey: 'bound.*' })
      const publisher = await rabbitmq({ url: server.url, exchange: 'sparse' })
      const lost = testMessage({ topic: 'unbound.b' })
      const messages = [testMessage({ topic: 'bound.a' }), lost, testMessage({ topic: 'bound.c' })]
      expect(await publish(publisher, messages)).toMatchObject([
        { status: 'published' },
        {
          status: 'retry',
          error: {
            code: 'PUBLISH_FAILED',
            message: 'routing key "unbound.b": exchange "sparse" has no queue bound for it (NO_ROUTE)',
          },
        },
        { status: 'published' },
      ])
      expect(await publishOne(publisher, lost)).toMatchObject({ status: 'retry' })
      await admin.queueBind({ exchange: 'sparse', queue: 'waybill.all', routingKey: 'unbound.*' })
      expect(await publishOne(publisher, lost)).toMatchObject({ status: 'published' })

      const careless = await rabbitmq({ url: server.url, exchange: 'sparse', mandatory: false })
      expect(await publishOne(careless, testMessage({ topic: 'nowhere' }))).toMatchObject({
        status: 'published',
      })
    })

    it('about a missing exchange is an outage, and other publishers do not notice', async () => {
      const publisher = await rabbitmq({ url: server.url, exchange: 'forgotten' })
      const other = await rabbitmq({ url: server.url })
      const [results, others] = await Promise.all([
        publish(
          publisher,
          Array.from({ length: 20 }, () => testMessage()),
        ),
        publish(
          other,
          Array.from({ length: 20 }, () => testMessage()),
        ),
      ])
      for (const result of results) {
        expect(result).toMatchObject({
          status: 'retry',
          error: { code: 'BROKER_UNAVAILABLE', message: expect.stringContaining("no exchange 'forgotten'") },
        })
      }
      expect(others.every(({ status }) => status === 'published')).toBe(true)
      expect(await failure(publisher.checkHealth!({ signal: AbortSignal.timeout(5000) }))).toMatchObject({
        code: 'BROKER_UNAVAILABLE',
        message: expect.stringContaining("no exchange 'forgotten'"),
      })

      const admin = await connectAmqp(server.url)
      await admin.exchangeDeclare({ exchange: 'forgotten', type: 'fanout' })
      await admin.queueBind({ exchange: 'forgotten', queue: 'waybill.all', routingKey: '' })
      await publisher.checkHealth!({ signal: AbortSignal.timeout(5000) })
      expect(await publishOne(publisher)).toMatchObject({ status: 'published' })
    })

    it('about a message that is too large for it concerns that message alone', async () => {
      await server.control('eval', 'application:set_env(rabbit, max_message_size, 1000).')
      try {
        const publisher = await rabbitmq({ url: server.url })
        const messages = Array.from({ length: 9 }, (_, i) =>
          testMessage(i === 4 ? { body: `"${'x'.repeat(2000)}"` } : {}),
        )
        const results = await publish(publisher, messages)
        expect(results[4]).toMatchObject({
          status: 'reject',
          error: { code: 'EVENT_REJECTED', details: { answer: 'PRECONDITION_FAILED' } },
        })
        expect(results.filter(({ status }) => status === 'published')).toHaveLength(8)
        for (const message of messages.filter((_, i) => i !== 4)) await received(message)
      } finally {
        await server.control('eval', 'application:set_env(rabbit, max_message_size, 134217728).')
      }
    })

    it('about a full queue makes the message wait', async () => {
      const admin = await connectAmqp(server.url)
      await admin.queueDeclare({
        queue: 'small',
        durable: true,
        arguments: { 'x-max-length': 1, 'x-overflow': 'reject-publish' },
      })
      const publisher = await rabbitmq({ url: server.url, exchange: '' })
      expect(await publishOne(publisher, testMessage({ topic: 'small' }))).toMatchObject({
        status: 'published',
      })
      expect(await publishOne(publisher, testMessage({ topic: 'small' }))).toMatchObject({
        status: 'retry',
        error: { code: 'PUBLISH_FAILED' },
      })
    })

    it('about a user who may not publish: everywhere is an outage, with one routing key it is that message', async () => {
      await server.control('add_user', 'writer', 'hunter2')
      const url = server.url.replace('guest:guest', 'writer:hunter2')
      const login = await failure(
        publishOne(await rabbitmq({ url: server.url.replace('guest:guest', 'writer:wrong') })),
      )
      expect(login).toMatchObject({
        code: 'BROKER_UNAVAILABLE',
        message: expect.stringContaining('ACCESS_REFUSED'),
      })
      expect(login.message).not.toContain('wrong')

      await server.control('set_permissions', 'writer', '', '', '.*')
      const publisher = await rabbitmq({ url })
      expect(await publish(publisher, [testMessage(), testMessage()])).toMatchObject([
        { status: 'retry', error: { code: 'BROKER_UNAVAILABLE' } },
        { status: 'retry', error: { code: 'BROKER_UNAVAILABLE' } },
      ])

      await server.control('set_permissions', 'writer', '', `^${exchange}$`, '')
      // The permission to write is all that is needed.
      await (
        await rabbitmq({ url })
      ).connect!({ signal: AbortSignal.timeout(5000) })
      await server.control('set_topic_permissions', 'writer', exchange, '^allowed\\.', '')
      const messages = ['allowed.a', 'forbidden.b', 'allowed.c'].map((topic) => testMessage({ topic }))
      const next = await rabbitmq({ url })
      expect(await publish(next, messages)).toMatchObject([
        { status: 'published' },
        {
          status: 'retry',
          error: {
            code: 'PUBLISH_FAILED',
            message: expect.stringContaining("access to topic 'forbidden.b'"),
          },
        },
        { status: 'published' },
      ])
    })

    it('about its memory: calls end with an outage, and go on when the alarm is over', async () => {
      const publisher = await rabbitmq({ url: server.url })
      await publishOne(publisher)
      await server.control('set_vm_memory_high_watermark', 'absolute', '1MB')
      try {
        const first = testMessage()
        expect(await publishOne(publisher, first, 1500)).toMatchObject({
          status: 'retry',
          error: { code: 'BROKER_UNAVAILABLE', message: expect.stringContaining('low on memory') },
        })
        const started = performance.now()
        expect(await failure(publishOne(publisher, first, 10_000))).toMatchObject({
          code: 'BROKER_UNAVAILABLE',
        })
        expect(await failure(publisher.checkHealth!({ signal: AbortSignal.timeout(5000) }))).toMatchObject({
          code: 'BROKER_UNAVAILABLE',
        })
        expect(performance.now() - started).toBeLessThan(1000)
      } finally {
        await server.control('set_vm_memory_high_watermark', 'absolute', '1GB')
      }
      const last = testMessage()
      await expect
        .poll(
          () =>
            publishOne(publisher, last).then(
              ({ status }) => status,
              () => 'refused',
            ),
          { timeout: 10_000 },
        )
        .toBe('published')
      await received(last)
    })
  })
})
