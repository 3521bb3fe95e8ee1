import { beforeAll, expect, it, vi } from 'vitest'
import { testMessage } from '../../src/testing/test-message.ts'
import { type KafkaPeer, type KafkaServer, startKafka } from '../support/kafka.ts'
import { type KafkaMessage, consumeTopic, kafkaAdmin } from '../support/kafka-consumer.ts'
import { describeWith } from '../support/services.ts'
import { kafka, messagesTo, publish, publishOne, statuses } from './kafka-bench.ts'

// A broker takes seconds to stop and to start, on a busy machine many.
vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 })

let server: KafkaServer
let peer: KafkaPeer

/** A topic whose partitions have these brokers, the first of each being the leader. */
async function topicOn(topic: string, ...replicas: number[][]): Promise<string> {
  const admin = await kafkaAdmin(server.url)
  const replicaAssignment = replicas.map((of, partition) => ({ partition, replicas: of }))
  // The controller may not have heard of the other broker yet.
  await vi.waitFor(() => admin.createTopics({ topics: [{ topic, replicaAssignment }] }), { timeout: 30_000 })
  await expect.poll(() => leaderOf(topic), { timeout: 30_000 }).toBe(replicas[0]![0])
  return topic
}

async function leaderOf(topic: string): Promise<number | undefined> {
  const admin = await kafkaAdmin(server.url)
  try {
    return (await admin.fetchTopicMetadata({ topics: [topic] })).topics[0]!.partitions[0]!.leader
  } catch {
    return undefined
  }
}

const idOf = ({ headers }: KafkaMessage) => new Map(headers).get('id')

describeWith('kafka-server', 'a cluster of Kafka', () => {
  beforeAll(async () => {
    server = await startKafka()
    peer = await server.join()
  })

  it('may lose the leader of a partition: its messages go to the next one, in order and none twice', async () => {
    const topic = await topicOn('replicated', [2, 1])
    const publisher = await kafka(server.url)
    const messages = messagesTo(topic, 30, { aggregateId: 'one' })
    expect(statuses(await publish(publisher, messages.slice(0, 10)))).toEqual(Array(10).fill('published'))
    await peer.kill('SIGKILL')
    const rest = messages.slice(10)
    await expect
      .poll(async () => statuses(await publish(publisher, rest)), { timeout: 60_000 })
      .toEqual(Array(20).fill('published'))
    expect(await leaderOf(topic)).toBe(1)
    const consumer = consumeTopic(server.url, topic)
    await consumer.waitFor(30)
    await consumer.close()
    expect(consumer.messages.map(idOf)).toEqual(messages.map(({ eventId }) => eventId))
    await peer.restart()
  })

  it('with a partition without a leader, whose it is: the others are written to, also by a new connection', async () => {
    const here = await topicOn('here', [1])
    const there = await topicOn('there', [2])
    const publisher = await kafka(server.url)
    const both = () => [...messagesTo(there, 2), ...messagesTo(here, 2)]
    expect(statuses(await publish(publisher, both()))).toEqual(Array(4).fill('published'))
    await peer.kill('SIGKILL')
    await expect.poll(() => leaderOf(there), { timeout: 30_000 }).toBeUndefined()
    // What is under way in the moment of the loss fails as a whole, what comes after that does not.
    await expect
      .poll(async () => statuses(await publish(publisher, both())), { timeout: 60_000 })
      .toEqual(['retry', 'retry', 'published', 'published'])
    expect((await publish(publisher, both()))[0]).toMatchObject({ error: { code: 'BROKER_UNAVAILABLE' } })
    const another = await kafka(server.url)
    expect(await publishOne(another, testMessage({ topic: here }))).toMatchObject({ status: 'published' })
    await another.checkHealth!({ signal: AbortSignal.timeout(10_000) })
    await peer.restart()
    await expect
      .poll(async () => statuses(await publish(publisher, both())), { timeout: 60_000 })
      .toEqual(Array(4).fill('published'))
  })
})
