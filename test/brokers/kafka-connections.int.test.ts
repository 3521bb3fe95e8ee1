import { cpSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { beforeAll, describe, expect, it, vi } from 'vitest'
import { testMessage } from '../../src/testing/test-message.ts'
import { type KafkaServer, startKafka } from '../support/kafka.ts'
import { type KafkaMessage, consumeTopic } from '../support/kafka-consumer.ts'
import { createProxy } from '../support/proxy.ts'
import { describeWith } from '../support/services.ts'
import { kafka, messagesTo, newTopic, publish, publishOne, statuses } from './kafka-bench.ts'
import { failure } from './publishing.ts'

// A broker takes seconds to stop and to start, on a busy machine many.
vi.setConfig({ testTimeout: 120_000 })

let server: KafkaServer

const idOf = ({ headers }: KafkaMessage) => new Map(headers).get('id')

async function idsIn(topic: string, count: number): Promise<(string | undefined)[]> {
  const consumer = consumeTopic(server.url, topic)
  await consumer.waitFor(count)
  await consumer.close()
  return consumer.messages.map(idOf)
}

describeWith('kafka-server', 'the connection to Kafka', () => {
  beforeAll(async () => {
    server = await startKafka()
  })

  it('may be cut while messages are under way: they are sent again, and the broker knows them', async () => {
    const topic = await newTopic(server.url, { partitions: 3 })
    const publisher = await kafka(server.proxiedUrl)
    await publishOne(publisher, testMessage({ topic }))
    const messages = messagesTo(topic, 50)
    const consumer = consumeTopic(server.url, topic)
    server.proxy.delay(1000)
    const call = publish(publisher, messages)
    await consumer.waitFor(51)
    // They have reached the broker, and its answer is still on its way.
    server.proxy.reset()
    server.proxy.delay(0)
    expect(statuses(await call)).toEqual(Array(50).fill('published'))
    const last = testMessage({ topic })
    await publishOne(publisher, last)
    await expect.poll(() => consumer.messages.map(idOf), { timeout: 10_000 }).toContain(last.eventId)
    const ids = consumer.messages.map(idOf)
    for (const { eventId } of messages) expect(ids.filter((id) => id === eventId)).toHaveLength(1)
    await consumer.close()
  })

  it('may be lost for good with messages under way: what comes next is not taken for a repetition', async () => {
    const topic = await newTopic(server.url)
    const publisher = await kafka(server.proxiedUrl)
    const [first, unanswered, next] = messagesTo(topic, 3)
    await publishOne(publisher, first!)
    const consumer = consumeTopic(server.url, topic)
    server.proxy.delay(1000)
    const call = publishOne(publisher, unanswered!)
    await consumer.waitFor(2)
    await server.proxy.down()
    expect(await call).toMatchObject({ status: 'retry' })
    server.proxy.delay(0)
    await server.proxy.up()
    expect(await publishOne(publisher, next!)).toEqual({
      status: 'published',
      receipt: `kafka:${topic}/0@2`,
    })
    await consumer.waitFor(3)
    expect(consumer.messages.map(idOf)).toEqual([first!, unanswered!, next!].map(({ eventId }) => eventId))
    await consumer.close()
  })

  it('may become a black hole: the call ends in time, and the next one takes a new connection', async () => {
    const topic = await newTopic(server.url)
    const publisher = await kafka(server.proxiedUrl)
    await publishOne(publisher, testMessage({ topic }))
    server.proxy.blackhole()
    const started = performance.now()
    expect(await publishOne(publisher, testMessage({ topic }), 300)).toMatchObject({
      status: 'retry',
      error: { code: 'PUBLISH_TIMEOUT' },
    })
    expect(performance.now() - started).toBeLessThan(1000)
    server.proxy.blackhole(false)
    expect(await publishOne(publisher, testMessage({ topic }))).toMatchObject({ status: 'published' })
  })

  it('is one for each call under way, so that no call waits for another', async () => {
    const topic = await newTopic(server.url)
    const publisher = await kafka(server.proxiedUrl)
    const four = () => Promise.all(messagesTo(topic, 4).map((message) => publishOne(publisher, message)))
    await four()
    const made = server.proxy.accepted
    server.proxy.delay(500)
    const started = performance.now()
    expect(statuses(await four())).toEqual(Array(4).fill('published'))
    // There and back takes a second, one after the other it would be four.
    expect(performance.now() - started).toBeLessThan(2500)
    expect(server.proxy.accepted).toBe(made)
    server.proxy.delay(0)
  })

  it('that cannot be made is an outage, at once, and nothing goes on behind it', async () => {
    const proxy = await createProxy(1)
    await proxy.down()
    const publisher = await kafka(`127.0.0.1:${proxy.port}`)
    const started = performance.now()
    expect(await publishOne(publisher, testMessage())).toMatchObject({
      status: 'retry',
      error: {
        code: 'BROKER_UNAVAILABLE',
        message: expect.stringContaining(`connect ECONNREFUSED 127.0.0.1:${proxy.port}`),
      },
    })
    expect(await failure(publisher.checkHealth!({ signal: AbortSignal.timeout(5000) }))).toMatchObject({
      code: 'BROKER_UNAVAILABLE',
    })
    expect(performance.now() - started).toBeLessThan(2000)
    await proxy.up()
    await new Promise((resolve) => setTimeout(resolve, 500))
    expect(proxy.accepted).toBe(0)
  })

  it('that is made and never answered is given up', async () => {
    const proxy = await createProxy(1)
    proxy.blackhole()
    const publisher = await kafka(`127.0.0.1:${proxy.port}`, { connectTimeoutMs: 200 })
    const started = performance.now()
    expect(await publishOne(publisher, testMessage(), 10_000)).toMatchObject({
      error: { code: 'BROKER_UNAVAILABLE', message: expect.stringContaining('no answer within 200 ms') },
    })
    expect(performance.now() - started).toBeLessThan(3000)
    const others = await kafka(server.url, {
      brokers: [`127.0.0.1:${proxy.port}`, server.url],
      connectTimeoutMs: 200,
    })
    const topic = await newTopic(server.url)
    expect(await publishOne(others, testMessage({ topic }))).toMatchObject({ status: 'published' })
    const patient = await kafka(`127.0.0.1:${proxy.port}`, { connectTimeoutMs: 20_000 })
    expect(await publishOne(patient, testMessage(), 200)).toMatchObject({
      error: { code: 'BROKER_UNAVAILABLE', message: expect.stringContaining('no connection in time') },
    })
    expect(await failure(patient.connect!({ signal: AbortSignal.timeout(200) }))).toMatchObject({
      code: 'BROKER_UNAVAILABLE',
    })
  })

  it('is tried at each of the addresses', async () => {
    const topic = await newTopic(server.url)
    const publisher = await kafka('127.0.0.1:1', { brokers: ['127.0.0.1:1', '127.0.0.1:2', server.url] })
    expect(await publishOne(publisher, testMessage({ topic }))).toMatchObject({ status: 'published' })
  })

  it('ends with the broker, and comes back with it', async () => {
    const topic = await newTopic(server.url)
    const publisher = await kafka(server.url)
    await publisher.connect!({ signal: AbortSignal.timeout(5000) })
    expect(await publishOne(publisher, testMessage({ topic }))).toMatchObject({ status: 'published' })
    await server.kill('SIGKILL')
    expect(await publishOne(publisher, testMessage({ topic }))).toMatchObject({
      status: 'retry',
      error: { code: 'BROKER_UNAVAILABLE' },
    })
    await server.restart()
    await expect
      .poll(async () => (await publishOne(publisher, testMessage({ topic }))).status, { timeout: 20_000 })
      .toBe('published')
  })

  it('to a broker that forgot the last messages of a producer heals by itself', async () => {
    const topic = await newTopic(server.url)
    const publisher = await kafka(server.url)
    const [kept, ...forgotten] = messagesTo(topic, 4)
    await publishOne(publisher, kept!)
    const data = join(server.folder, 'data')
    const copy = join(server.folder, 'copy')
    await server.kill('SIGTERM')
    cpSync(data, copy, { recursive: true })
    await server.restart()
    for (const message of forgotten)
      expect(await publishOne(publisher, message)).toMatchObject({ status: 'published' })
    await server.kill('SIGTERM')
    rmSync(data, { recursive: true })
    cpSync(copy, data, { recursive: true })
    await server.restart()
    const [next] = messagesTo(topic, 1)
    expect(await publishOne(publisher, next!)).toEqual({
      status: 'published',
      receipt: `kafka:${topic}/0@1`,
    })
    expect(await idsIn(topic, 2)).toEqual([kept!.eventId, next!.eventId])
  })

  describe('closing', () => {
    it('while messages are under way leaves nothing open', async () => {
      const topic = await newTopic(server.url)
      const publisher = await kafka(server.proxiedUrl)
      await publishOne(publisher, testMessage({ topic }))
      server.proxy.delay(200)
      const call = publish(publisher, messagesTo(topic, 10))
      await new Promise(setImmediate)
      await publisher.close()
      expect(statuses(await call)).toEqual(Array(10).fill('retry'))
      server.proxy.delay(0)
      await expect.poll(() => server.proxy.connections, { timeout: 5000 }).toBe(0)
      const made = server.proxy.accepted
      await new Promise((resolve) => setTimeout(resolve, 1000))
      expect(server.proxy.accepted).toBe(made)
    })

    it('while a connection is being made ends the call', async () => {
      const proxy = await createProxy(1)
      proxy.blackhole()
      const publisher = await kafka(`127.0.0.1:${proxy.port}`)
      const started = performance.now()
      const call = publishOne(publisher, testMessage())
      await publisher.close()
      expect(await call).toMatchObject({ status: 'retry' })
      expect(await failure(publishOne(publisher, testMessage()))).toMatchObject({
        code: 'BROKER_UNAVAILABLE',
        message: 'kafka is closed',
      })
      expect(performance.now() - started).toBeLessThan(2000)
    })
  })
})
