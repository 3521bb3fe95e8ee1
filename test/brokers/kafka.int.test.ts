import { beforeAll, describe, expect, it } from 'vitest'
import type { PublishResult } from '../../src/publishing/publisher.ts'
import { testMessage } from '../../src/testing/test-message.ts'
import { type KafkaServer, startKafka } from '../support/kafka.ts'
import { type KafkaMessage, consumeTopic, createTopics, kafkaAdmin } from '../support/kafka-consumer.ts'
import { describeWith } from '../support/services.ts'
import { kafka, messagesTo, newTopic, publish, publishOne, statuses } from './kafka-bench.ts'

let server: KafkaServer

async function read(topic: string, count: number): Promise<readonly KafkaMessage[]> {
  const consumer = consumeTopic(server.url, topic)
  const messages = await consumer.waitFor(count)
  await consumer.close()
  return messages
}

const idOf = ({ headers }: KafkaMessage) => new Map(headers).get('id')

/** The ids of all messages, once there are so many different ones: some may be there twice. */
async function readDistinct(topic: string, count: number): Promise<(string | undefined)[]> {
  for (let wanted = count; ; wanted++) {
    const ids = (await read(topic, wanted)).map(idOf)
    if (new Set(ids).size >= count) return ids
  }
}

const missing = { status: 'retry', error: { code: 'BROKER_UNAVAILABLE' } }

describeWith('kafka-server', 'what Kafka says', () => {
  beforeAll(async () => {
    server = await startKafka()
  })

  describe('about a topic that does not exist', () => {
    it('makes its messages wait, its neighbours pass, and it is tried again', async () => {
      const good = await newTopic(server.url)
      const later = `${good}.later`
      const publisher = await kafka(server.proxiedUrl)
      const messages = [...messagesTo(good, 3), ...messagesTo(later, 2), ...messagesTo(good, 2)]
      for (let round = 0; round < 2; round++) {
        const connections = server.proxy.accepted
        const results = await publish(publisher, messages)
        expect(results.slice(3, 5)).toMatchObject([missing, missing])
        expect(statuses([...results.slice(0, 3), ...results.slice(5)])).toEqual(Array(5).fill('published'))
        // The first time it fails its neighbours too, who need another connection; from then on itself alone.
        expect(server.proxy.accepted - connections).toBe(round === 0 ? 2 : 1)
        expect(String((results[3] as { error: unknown }).error)).toContain(
          `topic "${later}": This server does not host this topic-partition (make the topic`,
        )
      }
      // Nothing had been sent when it was found missing, so nothing came twice within one call.
      expect(await read(good, 10)).toHaveLength(10)
      await createTopics(server.url, { [later]: {} })
      expect(statuses(await publish(publisher, messages))).toEqual(Array(7).fill('published'))
      expect((await read(later, 2)).map(idOf)).toEqual(messages.slice(3, 5).map(({ eventId }) => eventId))
    })

    it('does not fail the next calls, when a topic is deleted that was written to', async () => {
      const [kept, deleted] = [await newTopic(server.url), await newTopic(server.url)]
      const publisher = await kafka(server.url)
      const both = () => [...messagesTo(deleted, 1), ...messagesTo(kept, 1)]
      expect(statuses(await publish(publisher, both()))).toEqual(['published', 'published'])
      await (await kafkaAdmin(server.url)).deleteTopics({ topics: [deleted] })
      await expect
        .poll(async () => statuses(await publish(publisher, both())), { timeout: 10_000 })
        .toEqual(['retry', 'published'])
      expect(await publishOne(publisher, messagesTo(kept, 1)[0]!)).toMatchObject({ status: 'published' })
    })

    it('is made by the broker only if the options and the broker say so', async () => {
      const own = await startKafka({ settings: { 'auto.create.topics.enable': 'true' } })
      const [message] = messagesTo('made.by.itself', 1)
      expect(await publishOne(await kafka(own.url), message!)).toMatchObject(missing)
      expect(await (await kafkaAdmin(own.url)).listTopics()).toEqual([])
      const publisher = await kafka(own.url, { createTopics: true })
      await expect
        .poll(async () => (await publishOne(publisher, message!)).status, { timeout: 10_000 })
        .toBe('published')
    })
  })

  describe('about what is too large', () => {
    it('concerns the one message, however many were with it', async () => {
      const topic = await newTopic(server.url, { partitions: 3, settings: { 'max.message.bytes': '20000' } })
      const publisher = await kafka(server.url)
      const messages = messagesTo(topic, 20)
      messages[7] = { ...messages[7]!, body: `"${'x'.repeat(20_000)}"` }
      const results = await publish(publisher, messages)
      expect(results[7]).toMatchObject({
        status: 'reject',
        error: {
          code: 'EVENT_REJECTED',
          details: { answer: 'MESSAGE_TOO_LARGE' },
          message: expect.stringContaining('see max.message.bytes'),
        },
      })
      expect(statuses(results.toSpliced(7, 1))).toEqual(Array(19).fill('published'))
      const ids = await readDistinct(topic, 19)
      expect(new Set(ids)).toEqual(new Set(messages.toSpliced(7, 1).map(({ eventId }) => eventId)))
      // At worst twice: those that were in another partition than the bad one.
      for (const id of ids) expect(ids.filter((other) => other === id).length).toBeLessThanOrEqual(2)
    })

    it('is no word about messages that are too large only together, and is learned', async () => {
      const topic = await newTopic(server.url, { settings: { 'max.message.bytes': '20000' } })
      const publisher = await kafka(server.proxiedUrl)
      const messages = () => messagesTo(topic, 20, { body: `"${'x'.repeat(5000)}"` })
      const [first, second] = [messages(), messages()]
      expect(statuses(await publish(publisher, first))).toEqual(Array(20).fill('published'))
      const connections = server.proxy.accepted
      expect(statuses(await publish(publisher, second))).toEqual(Array(20).fill('published'))
      // Each refusal would have cost a producer.
      expect(server.proxy.accepted).toBe(connections)
      const ids = [...first, ...second].map(({ eventId }) => eventId)
      expect((await read(topic, 40)).map(idOf)).toEqual(ids)
    })

    it('is split by bytes before it is sent, where the limit is known', async () => {
      const topic = await newTopic(server.url, { partitions: 2 })
      const publisher = await kafka(server.proxiedUrl)
      await publishOne(publisher, messagesTo(topic, 1)[0]!)
      const connections = server.proxy.accepted
      const results = await publish(publisher, messagesTo(topic, 12, { body: `"${'x'.repeat(400_000)}"` }))
      expect(statuses(results)).toEqual(Array(12).fill('published'))
      expect(server.proxy.accepted).toBe(connections)
    })
  })

  describe('about one event of an aggregate', () => {
    const aggregate = (topic: string, count: number) => messagesTo(topic, count, { aggregateId: 'one' })
    const behind = {
      status: 'retry',
      error: { code: 'PUBLISH_FAILED', message: expect.stringContaining('an earlier event') },
      afterMs: 0,
    }

    async function expectHeld(results: readonly PublishResult[], status: string): Promise<void> {
      expect(statuses(results.slice(0, 3))).toEqual(['published', 'published', status])
      expect(results.slice(3, 5)).toMatchObject([behind, behind])
      expect(statuses(results.slice(5))).toEqual(['published'])
    }

    it('holds back the later ones of it, and nobody else: refused by the broker', async () => {
      const topic = await newTopic(server.url, { settings: { 'max.message.bytes': '20000' } })
      const messages = [...aggregate(topic, 5), ...messagesTo(topic, 1)]
      messages[2] = { ...messages[2]!, body: `"${'x'.repeat(20_000)}"` }
      await expectHeld(await publish(await kafka(server.url), messages), 'reject')
      const sent = [messages[0]!, messages[1]!, messages[5]!].map(({ eventId }) => eventId)
      expect((await read(topic, 3)).map(idOf)).toEqual(sent)
    })

    it('holds back the later ones of it, and nobody else: known beforehand', async () => {
      const topic = await newTopic(server.url)
      const messages = [...aggregate(topic, 5), ...messagesTo(topic, 1)]
      messages[2] = { ...messages[2]!, headers: { big: 'x'.repeat(1_100_000) } }
      await expectHeld(await publish(await kafka(server.url), messages), 'reject')
      const sent = [messages[0]!, messages[1]!, messages[5]!].map(({ eventId }) => eventId)
      expect((await read(topic, 3)).map(idOf)).toEqual(sent)
    })
  })

  it('about a clock that is wrong is an outage, and no word about the event', async () => {
    // It takes nothing that is older than a moment, and the way to it is longer.
    const topic = await newTopic(server.url, { settings: { 'message.timestamp.before.max.ms': '10' } })
    server.proxy.delay(50)
    const [result] = await publish(await kafka(server.proxiedUrl), [testMessage({ topic })])
    server.proxy.delay(0)
    expect(result).toMatchObject(missing)
  })
})
