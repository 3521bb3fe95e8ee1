import { CreateTopicCommand, PublishBatchCommand, SNSClient } from '@aws-sdk/client-sns'
import { snsPublisher } from '../../../src/brokers/sns.ts'
import { createEncoder } from '../../../src/publishing/format.ts'
import { awsRegion } from '../../../test/support/aws.ts'
import type { Senders } from './sender.ts'
import { publisherSender } from './waybill.ts'

const mostEntries = 10

export const snsSenders: Senders = {
  async waybill({ address, topic }, batches) {
    const topicArn = await arnOf(address, topic)
    return publisherSender(await snsPublisher({ endpoint: address, topicArn }), batches)
  },
  async bare({ address, topic }, batches) {
    const encoder = createEncoder({ binding: 'sqs' })
    const records = batches.map((batch) =>
      batch.map((message) => {
        const { body, headers } = encoder.encode(message)
        const attributes = headers.map(([name, StringValue]) => [name, { DataType: 'String', StringValue }])
        return { Message: body, MessageAttributes: Object.fromEntries(attributes) }
      }),
    )
    const TopicArn = await arnOf(address, topic)
    const client = new SNSClient({ endpoint: address, region: awsRegion })
    return {
      async send(batch) {
        const requests: Promise<unknown>[] = []
        for (let start = 0; start < records[batch]!.length; start += mostEntries) {
          const entries = records[batch]!.slice(start, start + mostEntries)
          const PublishBatchRequestEntries = entries.map((entry, n) => ({ Id: String(n), ...entry }))
          requests.push(client.send(new PublishBatchCommand({ TopicArn, PublishBatchRequestEntries })))
        }
        await Promise.all(requests)
      },
      close: async () => client.destroy(),
    }
  },
}

/** Makes the topic unless it is there. */
async function arnOf(endpoint: string, Name: string): Promise<string> {
  const client = new SNSClient({ endpoint, region: awsRegion })
  try {
    return (await client.send(new CreateTopicCommand({ Name }))).TopicArn!
  } finally {
    client.destroy()
  }
}
