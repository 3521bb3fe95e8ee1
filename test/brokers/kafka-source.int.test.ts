import { type EachBatchHandler, Kafka } from 'kafkajs'
import { beforeAll, expect, it, vi } from 'vitest'
import { kafkaSource } from '../../src/brokers/kafka.ts'
import type { Delivery, DeliveryAnswer, Source } from '../../src/publishing/source.ts'
import { atEndOfFile } from '../support/cleanups.ts'
import { type KafkaServer, startKafka } from '../support/kafka.ts'
import { createTopics, kafkaAdmin } from '../support/kafka-consumer.ts'
import { describeWith } from '../support/services.ts'
import { kafka, messagesTo, newTopic, publish, statuses } from './kafka-bench.ts'
import { failure } from './publishing.ts'

// A broker takes seconds to stop and to start, and a group to notice that a member is gone.
vi.setConfig({ testTimeout: 120_000 })

let server: KafkaServer
const done: DeliveryAnswer = { status: 'done' }

type Options = Parameters<typeof kafkaSource>[0]

/** A source with a group of its own (the topic's name), at work, that is stopped at the end. */
async function read(
  topic: string,
  answer: (delivery: Delivery) => DeliveryAnswer | Promise<DeliveryAnswer> = () => done,
  options: Partial<Options> = {},
) {
  const deliveries: Delivery[] = []
  const told: string[] = []
  const source: Source = kafkaSource({ brokers: [server.url], group: topic, topics: [topic], ...options })
  const stop = () => source.stop({ graceMs: 5000 })
  atEndOfFile(stop)
  await source.start(
    async (delivery) => {
      deliveries.push(delivery)
      return answer(delivery)
    },
    { observer: { down: (error) => void told.push(error.message), up: () => void told.push('up') } },
  )
  return {
    deliveries,
    told,
    stop,
    arrived: (count: number) =>
      vi.waitFor(
        () => expect(new Set(deliveries.map(({ origin }) => origin)).size).toBeGreaterThanOrEqual(count),
        {
          timeout: 60_000,
        },
      ),
  }
}

async function send(topic: string, count: number): Promise<void> {
  const results = await publish(await kafka(server.url), messagesTo(topic, count))
  expect(statuses(results)).toEqual(Array(count).fill('published'))
}

/** The committed offset of each partition; -1: none. */
async function committed(topic: string): Promise<number[]> {
  const [found] = await (await kafkaAdmin(server.url)).fetchOffsets({ groupId: topic, topics: [topic] })
  return found!.partitions.sort((a, b) => a.partition - b.partition).map(({ offset }) => Number(offset))
}

describeWith('kafka-server', 'a source of Kafka', () => {
  beforeAll(async () => {
    server = await startKafka()
  })

  it('commits behind what is done, and never beyond a message that is not', async () => {
    const topic = await newTopic(server.url)
    await send(topic, 10)
    let answerNow!: (answer: DeliveryAnswer) => void
    const slow = new Promise<DeliveryAnswer>((resolve) => (answerNow = resolve))
    const { arrived, stop } = await read(topic, ({ origin }) => (origin.endsWith('@3') ? slow : done))
    await arrived(10)
    await expect.poll(() => committed(topic), { timeout: 10_000 }).toEqual([3])
    await send(topic, 5)
    await arrived(15)
    expect(await committed(topic)).toEqual([3])
    answerNow(done)
    await expect.poll(() => committed(topic), { timeout: 10_000 }).toEqual([15])
    await stop()
    expect(await committed(topic)).toEqual([15])
  })

  it('has at most `prefetch` messages unanswered, and keeps its place in the group meanwhile', async () => {
    const topic = await newTopic(server.url, { partitions: 2 })
    await send(topic, 40)
    const answers: (() => void)[] = []
    const { deliveries, arrived, told } = await read(
      topic,
      () => new Promise((resolve) => answers.push(() => resolve(done))),
      { prefetch: 10, sessionTimeoutMs: 6000 },
    )
    await arrived(10)
    // Longer than the group waits for a member that says nothing.
    await new Promise((resolve) => setTimeout(resolve, 8000))
    expect(deliveries).toHaveLength(10)
    while (deliveries.length < 40) {
      for (const answer of answers.splice(0)) answer()
      await new Promise((resolve) => setTimeout(resolve, 10))
    }
    for (const answer of answers) answer()
    await expect
      .poll(async () => (await committed(topic)).reduce((a, b) => a + b), { timeout: 10_000 })
      .toBe(40)
    expect(deliveries).toHaveLength(40)
    expect(told).toEqual([])
  })

  it('lets a message that takes long hold up its own partition in the end, and no other', async () => {
    const topic = await newTopic(server.url, { partitions: 2 })
    const publisher = await kafka(server.url)
    const all = messagesTo(topic, 200)
    const results = await publish(publisher, all)
    const ofFirst = results.filter((result) => 'receipt' in result && result.receipt?.includes('/0@')).length
    let answerNow!: (answer: DeliveryAnswer) => void
    const slow = new Promise<DeliveryAnswer>((resolve) => (answerNow = resolve))
    const { deliveries, arrived } = await read(
      topic,
      ({ origin }) => (origin === `kafka:${topic}/0@0` ? slow : done),
      { prefetch: 5 },
    )
    await arrived(200 - ofFirst + 50)
    await expect.poll(() => committed(topic), { timeout: 10_000 }).toEqual([-1, 200 - ofFirst])
    // Ten times `prefetch` behind the one that is not done.
    expect(deliveries.filter(({ origin }) => origin.includes('/0@'))).toHaveLength(50)
    answerNow(done)
    await arrived(200)
    await expect.poll(() => committed(topic), { timeout: 10_000 }).toEqual([ofFirst, 200 - ofFirst])
    expect(deliveries).toHaveLength(200)
  })

  it('shares the partitions with another, who joins and leaves in the middle: nothing is lost', async () => {
    const topic = await newTopic(server.url, { partitions: 4 })
    await send(topic, 200)
    let open!: (answer: DeliveryAnswer) => void
    const gate = new Promise<DeliveryAnswer>((resolve) => (open = resolve))
    let answered = 0
    // The first stands still in the middle until the second is there.
    const first = await read(topic, () => (answered++ < 20 ? done : gate), { prefetch: 5 })
    await first.arrived(25)
    const second = await read(topic, undefined, { prefetch: 5 })
    await second.arrived(10)
    open(done)
    // What the first had in hand when partitions were taken from it is lost to it.
    expect(first.deliveries.some(({ lost }) => lost?.aborted)).toBe(true)
    expect(first.deliveries[0]!.redelivered).toBe(true)
    await second.stop()
    await expect
      .poll(async () => (await committed(topic)).reduce((a, b) => a + b), { timeout: 60_000 })
      .toBe(200)
    const origins = [...first.deliveries, ...second.deliveries].map(({ origin }) => origin)
    expect(new Set(origins).size).toBe(200)
    for (const { deliveries } of [first, second]) {
      for (let partition = 0; partition < 4; partition++) {
        const own = deliveries.filter(({ origin }) => origin.startsWith(`kafka:${topic}/${partition}@`))
        const firsts = [...new Set(own.map(({ origin }) => Number(origin.split('@')[1])))]
        expect(firsts).toEqual(firsts.toSorted((a, b) => a - b))
      }
    }
  })

  it('waits for a member that lives and does not join again as long as for one that is dead', async () => {
    const topic = await newTopic(server.url)
    await send(topic, 1)
    const stuck = new Kafka({ brokers: [server.url], logLevel: 0 }).consumer({
      ...{ groupId: topic, sessionTimeout: 60_000, rebalanceTimeout: 6_000, heartbeatInterval: 100 },
    })
    const stopping = new AbortController()
    atEndOfFile(async () => {
      stopping.abort()
      await stuck.disconnect()
    })
    await stuck.connect()
    await stuck.subscribe({ topic, fromBeginning: true })
    const begun = new Promise<void>((resolve, reject) => {
      const eachBatch: EachBatchHandler = async ({ heartbeat }) => {
        resolve()
        while (!stopping.signal.aborted) {
          await heartbeat().catch(() => undefined)
          await new Promise((go) => setTimeout(go, 100))
        }
      }
      stuck.run({ autoCommit: false, eachBatchAutoResolve: false, eachBatch }).catch(reject)
    })
    await begun
    const at = performance.now()
    const { arrived } = await read(topic, undefined, { sessionTimeoutMs: 6_000 })
    await arrived(1)
    expect(performance.now() - at).toBeLessThan(20_000)
  })

  it('begins with the oldest message, or with the next one', async () => {
    const topic = await newTopic(server.url)
    await send(topic, 3)
    const late = await read(topic, undefined, { from: 'latest', group: `${topic}.late` })
    // It must have looked where the end is before there is more.
    await expect
      .poll(
        async () => {
          await send(topic, 1)
          return late.deliveries.length
        },
        { timeout: 30_000 },
      )
      .toBeGreaterThan(0)
    const early = await read(topic)
    await early.arrived(4)
    expect(early.deliveries[0]!.origin).toBe(`kafka:${topic}/0@0`)
    expect(late.deliveries.every(({ origin }) => Number(origin.split('@')[1]) >= 3)).toBe(true)
  })

  it('waits for a topic that does not exist, and says so', async () => {
    const topic = `waybill.later.${Date.now()}`
    const { told, arrived } = await read(topic)
    await vi.waitFor(() => expect(told[0]).toMatch(/does not host this topic-partition/), { timeout: 10_000 })
    await createTopics(server.url, { [topic]: {} })
    await send(topic, 1)
    await arrived(1)
    expect(told.slice(1)).toEqual(['up'])
  })

  it('starts while the broker is away, and is stopped while it is', async () => {
    const away = { brokers: ['127.0.0.1:1'] }
    const { told, stop } = await read('anything', undefined, away)
    expect(told).toEqual([expect.stringContaining('ECONNREFUSED')])
    const started = performance.now()
    await stop()
    expect(performance.now() - started).toBeLessThan(2000)
  })

  it('leaves no connection and no member behind when it is stopped', async () => {
    const topic = await newTopic(server.url)
    await send(topic, 5)
    const before = server.proxy.connections
    const { arrived, stop } = await read(topic, undefined, { brokers: [server.proxiedUrl] })
    await arrived(5)
    await stop()
    await expect.poll(() => server.proxy.connections, { timeout: 5000 }).toBe(before)
    const { groups } = await (await kafkaAdmin(server.url)).describeGroups([topic])
    expect(groups[0]).toMatchObject({ state: 'Empty', members: [] })
    expect(await committed(topic)).toEqual([5])
  })

  it('refuses options that do not fit', async () => {
    const wrong = { brokers: ['127.0.0.1:9092'], group: 'g', topics: [] }
    expect(() => kafkaSource(wrong)).toThrow('expected kafka.topics to be a list of at least 1')
    const error = await failure(
      Promise.resolve().then(() => kafkaSource({ ...wrong, topics: ['t'], groupId: 'x' } as Options)),
    )
    expect(error.message).toMatch(/unknown option "kafka.groupId", did you mean "kafka.group"/)
    const { subscription } = kafkaSource({ ...wrong, topics: ['b', 'a'] })
    expect(subscription).toBe('kafka:group=g topics=a,b')
  })
})
