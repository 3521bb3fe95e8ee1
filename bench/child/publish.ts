import type { Message } from '../../src/publishing/publisher.ts'
import { testMessage } from '../../src/testing/test-message.ts'
import { eventPayload } from '../transaction.ts'
import type { Parent, PublishJob, PublishResult } from './job.ts'
import { kafkaSenders } from './senders/kafka.ts'
import { natsSenders } from './senders/nats.ts'
import { rabbitmqSenders } from './senders/rabbitmq.ts'
import { redisSenders } from './senders/redis.ts'
import type { Senders } from './senders/sender.ts'
import { snsSenders } from './senders/sns.ts'
import { sqsSenders } from './senders/sqs.ts'
import { webhookSenders } from './senders/webhook.ts'

/** One line for each broker. */
const senders: Readonly<Record<PublishJob['broker'], Senders>> = {
  kafka: kafkaSenders,
  rabbitmq: rabbitmqSenders,
  nats: natsSenders,
  redis: redisSenders,
  sqs: sqsSenders,
  sns: snsSenders,
  webhook: webhookSenders,
}

export async function runPublish(job: PublishJob, parent: Parent): Promise<void> {
  const { batchSize, warmUpBatches, batches: measured, topic, address } = job
  const batches = Array.from({ length: warmUpBatches + measured }, (_, batch) =>
    batchOf(batch, batchSize, topic),
  )
  const sender = await senders[job.broker][job.by]({ address, topic }, batches)
  let next = 0
  while (next < warmUpBatches) await sender.send(next++)
  parent.warm()
  if ((await parent.command()) === 'go') {
    const cpu = process.cpuUsage()
    const startedAt = performance.now()
    while (next < batches.length) await sender.send(next++)
    const seconds = (performance.now() - startedAt) / 1000
    const { user, system } = process.cpuUsage(cpu)
    const messages = measured * batchSize
    parent.result({
      messagesPerSecond: messages / seconds,
      cpuMsPerThousand: (user + system) / messages,
    } satisfies PublishResult)
  }
  await sender.close()
}

const aggregates = 5000

/** Events as they come from the table: many aggregates, about 300 bytes each. */
function batchOf(batch: number, size: number, topic: string): Message[] {
  return Array.from({ length: size }, (_, index) =>
    testMessage({
      topic,
      aggregateType: 'order',
      aggregateId: `o-${(batch * size + index) % aggregates}`,
      eventType: 'order.created',
      body: eventPayload,
    }),
  )
}
