import { describe, expect, it } from 'vitest'
import { consumeQueue } from '../support/amqp-consumer.ts'
import { kafkaUrl } from '../support/kafka.ts'
import { createStream } from '../support/nats-stream.ts'
import { natsUrl } from '../support/nats.ts'
import { startNode } from '../support/processes.ts'
import { startRabbitmq } from '../support/rabbitmq.ts'
import { awsCredentials, awsRegion, startAws } from '../support/aws.ts'
import { startReceiver } from '../support/receiver.ts'
import { connectRedis } from '../support/redis-stream.ts'
import { redisUrl } from '../support/redis.ts'
import { requireService } from '../support/services.ts'
import { consumeSqs } from '../support/sqs-consumer.ts'
import { newTopic } from './kafka-bench.ts'

async function expectExit(
  type: string,
  options: object,
  topic = 'outbox.event.contract',
  env: Record<string, string> = {},
) {
  const args = [type, JSON.stringify(options), topic]
  const run = startNode('test/brokers/fixtures/publish-and-close.ts', args, { env })
  await run.line(/^closed after published$/)
  const closed = performance.now()
  expect(await run.exit).toEqual({ code: 0, signal: null })
  // A timer or a socket that was left would keep the process for seconds.
  expect(performance.now() - closed).toBeLessThan(1500)
  return run
}

describe('a closed publisher leaves nothing behind that keeps the process alive', () => {
  it('webhook', async () => {
    const receiver = await startReceiver()
    await expectExit('webhook', { url: receiver.origin })
    expect(receiver.requests).toHaveLength(1)
  })

  it('rabbitmq', async (context) => {
    requireService(context, 'rabbitmq')
    const server = await startRabbitmq()
    const queue = await consumeQueue(server.url, 'closing')
    await expectExit('rabbitmq', { url: server.url }, 'closing')
    expect(await queue.waitFor(1)).toHaveLength(1)
  })

  it('sqs', async (context) => {
    requireService(context, 'sqs')
    const { url, sqs, createQueue } = await startAws()
    const consumer = consumeSqs(sqs, await createQueue('closing.fifo'))
    await expectExit('sqs', { endpoint: url, region: awsRegion }, 'closing', awsCredentials)
    expect(await consumer.waitFor(1)).toHaveLength(1)
  })

  it('sns', async (context) => {
    requireService(context, 'sqs')
    const { url, sqs, createQueue, createTopic } = await startAws()
    const consumer = consumeSqs(sqs, await createQueue('behind'))
    const topicArn = await createTopic('closing', ['behind'])
    await expectExit('sns', { endpoint: url, topicArn }, 'closing', awsCredentials)
    expect(await consumer.waitFor(1)).toHaveLength(1)
  })

  it('kafka, of which the standard output and error show nothing either', async (context) => {
    requireService(context, 'kafka')
    const url = await kafkaUrl()
    const topic = await newTopic(url)
    const { stdout, stderr } = await expectExit('kafka', { brokers: [url] }, topic)
    expect([stdout, stderr]).toEqual(['', 'closed after published\n'])
    const away = startNode('test/brokers/fixtures/publish-and-close.ts', [
      ...['kafka', JSON.stringify({ brokers: ['127.0.0.1:1'] }), topic],
    ])
    expect(await away.exit).toEqual({ code: 0, signal: null })
    expect([away.stdout, away.stderr]).toEqual(['', 'closed after retry\n'])
  })

  it('nats', async (context) => {
    requireService(context, 'nats')
    const url = await natsUrl()
    const stream = await createStream(url, 'closing', ['closing'])
    await expectExit('nats', { url }, 'closing')
    expect(await stream.messages()).toHaveLength(1)
    await stream.manager.streams.delete('closing')
  })

  it('redis-streams', async (context) => {
    requireService(context, 'redis')
    const url = await redisUrl()
    await expectExit('redis-streams', { url }, 'closing')
    const redis = connectRedis(url)
    expect(await redis.xlen('closing')).toBe(1)
    await redis.del('closing')
  })

  it('stdout', async () => {
    const { stdout } = await expectExit('stdout', {})
    expect(JSON.parse(stdout)).toMatchObject({ topic: 'outbox.event.contract' })
  })
})
