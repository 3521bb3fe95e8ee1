import { setTimeout as delay } from 'node:timers/promises'
import type { Connection } from 'rabbitmq-client'
import { beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { rabbitmqSource } from '../../src/brokers/rabbitmq.ts'
import type { DeliveryAnswer } from '../../src/publishing/source.ts'
import { connectAmqp } from '../support/amqp-consumer.ts'
import { createProxy } from '../support/proxy.ts'
import { type RabbitmqServer, startRabbitmq } from '../support/rabbitmq.ts'
import { describeWith } from '../support/services.ts'
import { nodeWarnings } from '../support/warnings.ts'
import { bodyOf, done, held, read } from './source-bench.ts'

describeWith('rabbitmq', 'the source for RabbitMQ', () => {
  let server: RabbitmqServer
  let admin: Connection
  let queue: string
  let count = 0
  beforeAll(async () => {
    server = await startRabbitmq()
    admin = await connectAmqp(server.url)
  })
  beforeEach(async () => {
    queue = `source-${++count}`
    await declare()
  })

  const declare = (args: Record<string, unknown> = {}) =>
    admin.queueDeclare({ queue, durable: true, arguments: args })
  const source = (options: Partial<Parameters<typeof rabbitmqSource>[0]> = {}) =>
    rabbitmqSource({ url: server.url, queue, ...options })
  const again: DeliveryAnswer = { status: 'again', afterMs: 0, error: new Error('the test says so') }

  async function send(bodies: readonly string[], envelope: object = {}): Promise<void> {
    const publisher = admin.createPublisher({ confirm: true })
    for (const body of bodies) {
      await publisher.send({ routingKey: queue, durable: true, ...envelope }, Buffer.from(body))
    }
    await publisher.close()
  }

  it('hands over a message as it came, whatever its content type', async () => {
    const headers = { text: 'ü', number: 7, truth: true, table: { a: 1 }, 'x-death': 'once' }
    for (const contentType of ['application/json', 'text/plain', undefined]) {
      await send(['9007199254740993'], { messageId: 'm-1', contentType, headers })
    }
    const reading = await read(source())
    const deliveries = await reading.waitFor(3)
    expect(deliveries.map(bodyOf)).toEqual(Array.from({ length: 3 }, () => '9007199254740993'))
    expect(deliveries.map(({ contentType }) => contentType)).toEqual(['application/json', 'text/plain', null])
    expect(deliveries[0]).toMatchObject({
      ...{ binding: 'amqp', topic: queue, key: null, redelivered: false },
      origin: `rabbitmq:${queue}/m-1`,
    })
    expect(Object.fromEntries(deliveries[0]!.headers)).toEqual({ text: 'ü', number: '7', truth: 'true' })
    expect(reading.source).toMatchObject({
      subscription: `rabbitmq:/${queue}`,
      capabilities: { ordering: 'aggregate', holding: true },
    })
  })

  it('hands over large bodies from a broker with small frames', async () => {
    await server.control('eval', 'application:set_env(rabbit, frame_max, 8192).')
    try {
      const body = `"${'x'.repeat(100_000)}"`
      await send([body])
      const reading = await read(source())
      expect((await reading.waitFor(1)).map(bodyOf)).toEqual([body])
      await expect(read(source({ queue: 'missing' }))).rejects.toThrow(/NOT_FOUND/)
    } finally {
      await server.control('eval', 'application:set_env(rabbit, frame_max, 131072).')
    }
  })

  it('hands over no more than may be without an answer', async () => {
    await send(Array.from({ length: 12 }, (_, i) => String(i)))
    const { promise, release } = held<DeliveryAnswer>()
    const reading = await read(source({ prefetch: 5 }), () => promise)
    await reading.waitFor(5)
    await delay(300)
    expect(reading.deliveries).toHaveLength(5)
    release(done)
    expect((await reading.waitFor(12)).map(bodyOf)).toEqual(Array.from({ length: 12 }, (_, i) => String(i)))
  })

  describe('a second reader', () => {
    it('stands by, says so once, and goes on in order when the first has stopped', async () => {
      await send(['1', '2', '3', '4'])
      const { promise, release } = held<DeliveryAnswer>()
      const first = await read(source(), (delivery) => (bodyOf(delivery) === '1' ? done : promise))
      await first.waitFor(4)
      const second = await read(source())
      expect(second.errors).toMatchObject([
        {
          code: 'BROKER_UNAVAILABLE',
          message: expect.stringMatching(
            /^rabbitmq: another process reads the queue "source-\d+" at RabbitMQ at 127/,
          ),
        },
      ])
      expect(second.deliveries).toEqual([])
      const stopping = first.stop()
      release(again)
      await stopping
      expect((await second.waitFor(3)).map(bodyOf)).toEqual(['2', '3', '4'])
      expect(second.told).toEqual(['down', 'up'])
    })

    it('is ruled out where the queue would let it read beside the first', async () => {
      queue = `quorum-alone-${count}`
      await declare({ 'x-queue-type': 'quorum' })
      await send(['1', '2'])
      const reading = read(source())
      await expect(reading).rejects.toMatchObject({
        code: 'CONFIGURATION_INVALID',
        message: expect.stringMatching(
          /^rabbitmq: the queue "quorum-alone-\d+" at .* cannot be read: several .* set readers to "single-active"/,
        ),
      })
      const next = await read(source({ readers: 'shared' }))
      expect((await next.waitFor(2)).map(bodyOf).sort()).toEqual(['1', '2'])
    })

    it('of a queue with a single active consumer is told which option it takes', async () => {
      queue = `single-${count}`
      await declare({ 'x-single-active-consumer': true })
      const wrong = await read(source())
      expect(wrong.errors[0]?.message).toContain('set readers to "single-active"')
      await send(['1', '2'])
      const first = await read(source({ readers: 'single-active' }), () => again)
      await first.waitFor(1)
      const second = await read(source({ readers: 'single-active' }))
      expect(second.told).toEqual([])
      await first.stop()
      expect((await second.waitFor(2)).map(bodyOf)).toEqual(['1', '2'])
    })

    it('shares the queue where that is wanted', async () => {
      const { promise, release } = held<DeliveryAnswer>()
      const shared = () => source({ readers: 'shared', prefetch: 1 })
      const [first, second] = [await read(shared(), () => promise), await read(shared(), () => promise)]
      await send(['1', '2'])
      await Promise.all([first.waitFor(1), second.waitFor(1)])
      release(done)
      expect(first.source.capabilities.ordering).toBe('none')
    })
  })

  it('gives a refused message back alone where the queue is shared', async () => {
    let refusals = 1
    await send(['1', '2'])
    const reading = await read(source({ readers: 'shared' }), (delivery) =>
      bodyOf(delivery) === '1' && refusals-- > 0 ? again : done,
    )
    expect((await reading.waitFor(3)).map(bodyOf)).toEqual(['1', '2', '1'])
    expect(reading.deliveries[2]!.redelivered).toBe(true)
  })

  it('hands over in order what stands behind a refused message, also while more is sent', async () => {
    queue = `quorum-${count}`
    await declare({ 'x-queue-type': 'quorum' })
    const bodies = Array.from({ length: 200 }, (_, i) => String(i))
    let refused = 0
    const applied: string[] = []
    let failing: string | undefined
    // As a consumer does that cannot go on: behind a refused one it takes none, until that comes again.
    const reading = await read(source({ readers: 'single-active', prefetch: 50 }), (delivery) => {
      const body = bodyOf(delivery)
      if (failing !== undefined && body !== failing) return again
      failing = body.endsWith('7') && refused < 20 && refused++ % 2 === 0 ? body : undefined
      if (failing !== undefined) return again
      applied.push(body)
      return done
    })
    await send(bodies)
    await expect.poll(() => applied.length, { timeout: 20_000 }).toBe(200)
    expect(applied).toEqual(bodies)
    expect(refused).toBeGreaterThan(5)
    expect(reading.told).toEqual([])
  })

  it('tells what is at work that it is lost when the connection breaks', async () => {
    const proxy = await createProxy(server.port)
    const { promise, release } = held<DeliveryAnswer>()
    await send(['1'])
    const url = server.url.replace(`:${server.port}`, `:${proxy.port}`)
    const reading = await read(source({ url }), () => (reading.deliveries.length === 1 ? promise : done))
    const [first] = await reading.waitFor(1)
    expect(first!.lost!.aborted).toBe(false)
    proxy.reset()
    const [, second] = await reading.waitFor(2)
    expect(first!.lost!.aborted).toBe(true)
    expect(second).toMatchObject({ redelivered: true })
    // Its answer reaches nobody, and does no harm.
    release(done)
    await send(['2'])
    expect((await reading.waitFor(3)).map(bodyOf)).toEqual(['1', '1', '2'])
    expect(reading.told).toEqual(['down', 'up'])
  })

  it('tells what is at work that it is lost when it takes longer than the broker waits', async () => {
    await server.control(
      'eval',
      'application:set_env(rabbit, channel_tick_interval, 200), application:set_env(rabbit, consumer_timeout, 500).',
    )
    try {
      await send(['1'])
      const { promise, release } = held<DeliveryAnswer>()
      const reading = await read(source(), () => (reading.deliveries.length === 1 ? promise : done))
      const [first, second] = await reading.waitFor(2)
      expect(first!.lost!.aborted).toBe(true)
      expect(second).toMatchObject({ redelivered: true })
      release(done)
      expect(reading.told).toEqual(['down', 'up'])
      expect(reading.errors[0]?.message).toMatch(
        /PRECONDITION_FAILED - delivery acknowledgement .* timed out/,
      )
    } finally {
      await server.control(
        'eval',
        'application:set_env(rabbit, channel_tick_interval, 60000), application:set_env(rabbit, consumer_timeout, 1800000).',
      )
    }
  })

  it('goes on when its queue was deleted and is there again', async () => {
    const reading = await read(source())
    await admin.queueDelete({ queue })
    await expect.poll(() => reading.told).toEqual(['down'])
    expect(reading.errors[0]?.message).toMatch(/cannot be read: the broker ended the consumer/)
    await declare()
    await send(['1'])
    await reading.waitFor(1)
    expect(reading.told).toEqual(['down', 'up'])
  })

  it('gives back more, and reconnects more often, than Node allows listeners, without a warning', async () => {
    const warnings = nodeWarnings()
    const proxy = await createProxy(server.port)
    const url = server.url.replace(`:${server.port}`, `:${proxy.port}`)
    let refusals = 20
    const reading = await read(source({ url, readers: 'shared' }), () =>
      refusals-- > 0 ? { ...again, afterMs: 100 } : done,
    )
    await send(Array.from({ length: 20 }, (_, i) => String(i)))
    await reading.waitFor(40)
    for (let i = 1; i <= 12; i++) {
      proxy.reset()
      await send([String(i)])
      await reading.waitFor(40 + i)
    }
    expect(warnings).toEqual([])
  })

  describe('the start', () => {
    it('fails with one sentence when there is no such queue', async () => {
      await expect(read(source({ queue: 'missing' }))).rejects.toMatchObject({
        code: 'BROKER_UNAVAILABLE',
        message: expect.stringMatching(
          /^rabbitmq: the queue "missing" at RabbitMQ at .* cannot be read: .*NOT_FOUND/,
        ),
      })
    })

    it('fails without the password when the user is refused', async () => {
      const url = server.url.replace('guest:guest', 'guest:hunter2')
      const error = await read(source({ url })).then(
        () => expect.unreachable(),
        (reason: Error) => reason,
      )
      expect(error).toMatchObject({ code: 'BROKER_UNAVAILABLE' })
      expect(error.message).toContain('ACCESS_REFUSED')
      expect(error.message).not.toContain('hunter2')
    })

    it('waits for a broker that is away', async () => {
      const proxy = await createProxy(server.port)
      await proxy.down()
      const reading = await read(source({ url: server.url.replace(`:${server.port}`, `:${proxy.port}`) }))
      expect(reading.told).toEqual(['down'])
      await send(['1'])
      await proxy.up()
      await reading.waitFor(1)
      expect(reading.told).toEqual(['down', 'up'])
    })

    it('is given up at once by a stop, however long the broker says nothing', async () => {
      const proxy = await createProxy(server.port)
      proxy.blackhole()
      const url = server.url.replace(`:${server.port}`, `:${proxy.port}`)
      const silent = source({ url, connectTimeoutMs: 60_000 })
      const reading = read(silent)
      await expect.poll(() => proxy.connections).toBe(1)
      const started = performance.now()
      await silent.stop({ graceMs: 20_000 })
      expect(performance.now() - started).toBeLessThan(2_000)
      expect((await reading).told).toEqual([])
    })
  })
})
