import { CreateTopicCommand, SNSClient, SubscribeCommand } from '@aws-sdk/client-sns'
import { snsPublisher } from '../../src/brokers/sns.ts'
import { createRelay } from '../../src/relay/index.ts'
import { createQueueReader, startLocal } from './local.ts'

const print = (line: string): void => void process.stdout.write(`${line}\n`)
const local = await startLocal()
const reader = createQueueReader(local)
const { databaseUrl, endpoint, region } = local

// One topic, two queues: all events for the search, payments for the mail.
const sns = new SNSClient({ endpoint, region })
const Attributes = { FifoTopic: 'true' }
const { TopicArn } = await sns.send(new CreateTopicCommand({ Name: 'shop.fifo', Attributes }))
const queues = {
  search: await reader.createQueue('search.fifo'),
  mail: await reader.createQueue('mail.fifo'),
}
await subscribe('search.fifo', {})
await subscribe('mail.fifo', { FilterPolicy: '{"eventType": ["order.paid"]}' })

await local.placeOrder('o-1')

// For AWS leave `endpoint` out.
const relay = createRelay({
  databaseUrl,
  destinations: { bus: await snsPublisher({ endpoint, topicArn: TopicArn! }) },
})
const { published } = await relay.drain()
print(`${published} events published`)

await reader.receive(queues.search, 2, (line) => print(`search: ${line}`))
await reader.receive(queues.mail, 1, (line) => print(`mail: ${line}`))
sns.destroy()
reader.close()
await local.close()

async function subscribe(queue: string, filter: Record<string, string>): Promise<void> {
  const Endpoint = `arn:aws:sqs:${region}:000000000000:${queue}`
  // Raw: the queue gets the message as if it had been sent there.
  const Attributes = { RawMessageDelivery: 'true', ...filter }
  await sns.send(new SubscribeCommand({ TopicArn, Protocol: 'sqs', Endpoint, Attributes }))
}
