import { sqsPublisher } from '../../src/brokers/sqs.ts'
import { createRelay } from '../../src/relay/index.ts'
import { createQueueReader, startLocal } from './local.ts'

const print = (line: string): void => void process.stdout.write(`${line}\n`)
const local = await startLocal()
const reader = createQueueReader(local)
const queueUrl = await reader.createQueue('outbox-event-order.fifo')

await local.placeOrder('o-1')

// For AWS leave `endpoint` out.
const { databaseUrl, endpoint, region } = local
const relay = createRelay({ databaseUrl, destinations: { bus: await sqsPublisher({ endpoint, region }) } })
const { published } = await relay.drain()
print(`${published} events published`)

await reader.receive(queueUrl, published, print)
reader.close()
await local.close()
