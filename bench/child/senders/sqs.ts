import { GetQueueUrlCommand, SQSClient, SendMessageBatchCommand } from '@aws-sdk/client-sqs'
import { sqsPublisher } from '../../../src/brokers/sqs.ts'
import { awsRegion } from '../../../test/support/aws.ts'
import { entriesOf, inCalls } from './aws.ts'
import type { Senders } from './sender.ts'
import { publisherSender } from './waybill.ts'

export const sqsSenders: Senders = {
  async waybill({ address, topic }, batches) {
    return publisherSender(
      await sqsPublisher({ endpoint: address, region: awsRegion, queue: topic }),
      batches,
    )
  },
  async bare({ address, topic }, batches) {
    const records = entriesOf(batches)
    const client = new SQSClient({ endpoint: address, region: awsRegion })
    const { QueueUrl } = await client.send(new GetQueueUrlCommand({ QueueName: topic }))
    return {
      send: (batch) =>
        inCalls(records[batch]!, (part) => {
          const Entries = part.map(({ body, attributes }, n) => ({
            ...{ Id: String(n), MessageBody: body },
            MessageAttributes: attributes,
          }))
          return client.send(new SendMessageBatchCommand({ QueueUrl, Entries }))
        }),
      close: async () => client.destroy(),
    }
  },
}
