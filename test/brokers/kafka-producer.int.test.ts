import { Kafka, Partitioners, type Producer, logLevel } from 'kafkajs'
import { beforeAll, expect, it } from 'vitest'
import { kafkaProducerPublisher } from '../../src/brokers/kafka.ts'
import { testMessage } from '../../src/testing/test-message.ts'
import { atEndOfFile } from '../support/cleanups.ts'
import { type KafkaServer, startKafka } from '../support/kafka.ts'
import { consumeTopic } from '../support/kafka-consumer.ts'
import { describeWith } from '../support/services.ts'
import { messagesTo, newTopic, publish, publishOne, statuses } from './kafka-bench.ts'

let server: KafkaServer
let kafka: Kafka
let producer: Producer

describeWith('kafka-server', 'a producer of one’s own', () => {
  beforeAll(async () => {
    server = await startKafka()
    kafka = new Kafka({ brokers: [server.url], logLevel: logLevel.NOTHING, retry: { retries: 1 } })
    producer = kafka.producer({ createPartitioner: Partitioners.DefaultPartitioner })
    await producer.connect()
    atEndOfFile(() => producer.disconnect())
  })

  it('sends the same as ours, one event of an aggregate at a time, and is left connected', async () => {
    const topic = await newTopic(server.url, { partitions: 3 })
    const publisher = kafkaProducerPublisher(producer, { name: 'mine', cloudEventsSource: '/shop' })
    expect(publisher).toMatchObject({ name: 'mine', capabilities: { ordering: 'per-call' } })
    expect(publisher.checkHealth).toBeUndefined()
    const message = testMessage({ topic, body: '1.10', headers: { 'x-own': 'ü' } })
    expect(await publishOne(publisher, message)).toEqual({ status: 'published', receipt: `kafka:${topic}` })
    const consumer = consumeTopic(server.url, topic)
    expect((await consumer.waitFor(1))[0]).toMatchObject({
      key: message.aggregateId,
      body: '1.10',
      headers: expect.arrayContaining([['x-own', 'ü']]),
    })
    await consumer.close()
    await publisher.close()
    await producer.send({ topic, messages: [{ value: 'still connected' }] })
  })

  it('fails one bad topic and one oversize message alone', async () => {
    const topic = await newTopic(server.url, { settings: { 'max.message.bytes': '20000' } })
    const publisher = kafkaProducerPublisher(producer)
    const messages = messagesTo(topic, 10)
    messages[3] = { ...messages[3]!, body: `"${'x'.repeat(20_000)}"` }
    messages[6] = { ...messages[6]!, topic: `${topic}.missing` }
    const results = await publish(publisher, messages)
    expect(statuses(results)).toEqual(
      messages.map((_, index) => (index === 3 ? 'reject' : index === 6 ? 'retry' : 'published')),
    )
    expect(results[6]).toMatchObject({ error: { code: 'BROKER_UNAVAILABLE' } })
  })

  it('that looks for a missing topic for longer than the call lasts does not hold up the other topics', async () => {
    const patient = new Kafka({ brokers: [server.url], logLevel: logLevel.NOTHING }).producer({
      createPartitioner: Partitioners.DefaultPartitioner,
      retry: { retries: 5, initialRetryTime: 3000 },
    })
    await patient.connect()
    const topic = await newTopic(server.url)
    const messages = [...messagesTo(`${topic}.missing`, 1), ...messagesTo(topic, 2)]
    const results = await publish(kafkaProducerPublisher(patient), messages, 2000)
    expect(statuses(results)).toEqual(['retry', 'published', 'published'])
    await patient.disconnect()
  })

  it('that is not connected is an outage', async () => {
    const idle = kafka.producer({ createPartitioner: Partitioners.DefaultPartitioner })
    expect(await publishOne(kafkaProducerPublisher(idle), testMessage())).toMatchObject({
      status: 'retry',
      error: { code: 'BROKER_UNAVAILABLE', message: 'kafka: The producer is disconnected' },
    })
  })

  it('that would confirm what it lost is refused', () => {
    const idempotent = kafka.producer({
      idempotent: true,
      createPartitioner: Partitioners.DefaultPartitioner,
    })
    expect(() => kafkaProducerPublisher(idempotent)).toThrow(/use kafkaPublisher, which replaces it/)
    expect(() => kafkaProducerPublisher(producer, { maxMessageByte: 5 } as object)).toThrow(
      /unknown option "kafka.maxMessageByte", did you mean "kafka.maxMessageBytes"/,
    )
  })
})
