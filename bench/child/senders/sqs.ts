import { GetQueueUrlCommand, SQSClient, SendMessageBatchCommand } from '@aws-sdk/client-sqs'
import { sqsPublisher } from '../../../src/brokers/sqs.ts'
import { createEncoder } from '../../../src/publishing/format.ts'
import { awsRegion } from '../../../test/support/aws.ts'
import type { Senders } from './sender.ts'
import { publisherSender } from './waybill.ts'

const mostEntries = 10

export const sqsSenders: Senders = {
  async waybill({ address, topic }, batches) {
    return publisherSender(
      await sqsPublisher({ endpoint: address, region: awsRegion, queue: topic }),
      batches,
    )
  },
  async bare({ address, topic }, batches) {
    const encoder = createEncoder({ binding: 'sqs' })
    const records = batches.map((batch) =>
      batch.map((message) => {
        const { body, headers } = encoder.encode(message)
        const attributes = headers.map(([name, StringValue]) => [name, { DataType: 'String', StringValue }])
        return { MessageBody: body, MessageAttributes: Object.fromEntries(attributes) }
      }),
    )
    const client = new SQSClient({ endpoint: address, region: awsRegion })
    const { QueueUrl } = await client.send(new GetQueueUrlCommand({ QueueName: topic }))
    return {
      async send(batch) {
        const requests: Promise<unknown>[] = []
        for (let start = 0; start < records[batch]!.length; start += mostEntries) {
          const entries = records[batch]!.slice(start, start + mostEntries)
          const Entries = entries.map((entry, n) => ({ Id: String(n), ...entry }))
          requests.push(client.send(new SendMessageBatchCommand({ QueueUrl, Entries })))
        }
        await Promise.all(requests)
      },
      close: async () => client.destroy(),
    }
  },
}
