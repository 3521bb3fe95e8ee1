import { CreateTopicCommand, PublishBatchCommand, SNSClient } from '@aws-sdk/client-sns'
import { snsPublisher } from '../../../src/brokers/sns.ts'
import { awsRegion } from '../../../test/support/aws.ts'
import { entriesOf, inCalls } from './aws.ts'
import type { Senders } from './sender.ts'
import { publisherSender } from './waybill.ts'

export const snsSenders: Senders = {
  async waybill({ address, topic }, batches) {
    const topicArn = await arnOf(address, topic)
    return publisherSender(await snsPublisher({ endpoint: address, topicArn }), batches)
  },
  async bare({ address, topic }, batches) {
    const records = entriesOf(batches)
    const TopicArn = await arnOf(address, topic)
    const client = new SNSClient({ endpoint: address, region: awsRegion })
    return {
      send: (batch) =>
        inCalls(records[batch]!, (part) => {
          const PublishBatchRequestEntries = part.map(({ body, attributes }, n) => ({
            ...{ Id: String(n), Message: body },
            MessageAttributes: attributes,
          }))
          return client.send(new PublishBatchCommand({ TopicArn, PublishBatchRequestEntries }))
        }),
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
