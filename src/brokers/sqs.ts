import { resolveOptions } from '../options.ts'
import type { Publisher } from '../publishing/publisher.ts'
import { clientConfig } from './aws/client.ts'
import { createPlaces } from './aws/names.ts'
import { type Service, createAwsPublisher } from './aws/publisher.ts'
import { createQueueUrls } from './aws/queue-urls.ts'
import type { Broker } from './broker.ts'
import { loadDependency } from './dependency.ts'
import { type SqsOptions, type SqsSettings, sqsOptions } from './sqs-options.ts'

export type { SqsOptions } from './sqs-options.ts'
export { sqsSource } from './sqs-source.ts'
export type { SqsSourceOptions } from './sqs-source.ts'

/**
 * Publishes to queues of Amazon SQS, FIFO or standard, in batches. Needs the package `@aws-sdk/client-sqs`, which
 * finds region and credentials in its usual places.
 *
 * @throws CONFIGURATION_INVALID, DEPENDENCY_MISSING
 */
export async function sqsPublisher(options: SqsOptions & { name?: string } = {}): Promise<Publisher> {
  const { name = 'sqs', ...rest } = options
  return createPublisher(name, resolveOptions(sqsOptions, rest, { path: name }))
}

export const broker: Broker<typeof sqsOptions> = { options: sqsOptions, create: createPublisher }

async function createPublisher(name: string, settings: SqsSettings): Promise<Publisher> {
  const places = createPlaces(settings.queue, { kind: 'queue', maxLength: 80 })
  return createAwsPublisher(name, await openService(settings), places, settings)
}

async function openService(settings: SqsSettings): Promise<Service> {
  const sdk = await loadDependency('sqs', '@aws-sdk/client-sqs', () => import('@aws-sdk/client-sqs'))
  const { SQSClient, GetQueueUrlCommand, SendMessageBatchCommand } = sdk
  // A URL tells the queue and never where to send: whoever may write one must not get what is signed for AWS.
  const client = new SQSClient({ ...clientConfig(settings), useQueueUrlAsEndpoint: false })
  const urls = createQueueUrls(async (QueueName, abortSignal) => {
    const { QueueUrl } = await client.send(new GetQueueUrlCommand({ QueueName }), { abortSignal })
    return QueueUrl ?? ''
  })

  return {
    type: 'sqs',
    kind: 'queue',
    async send(place, entries, abortSignal) {
      const QueueUrl = await urls.get(place)
      const Entries = entries.map(({ body: MessageBody, attributes: MessageAttributes, fifo }, number) => ({
        Id: String(number),
        MessageBody,
        MessageAttributes,
        ...fifo,
      }))
      return client.send(new SendMessageBatchCommand({ QueueUrl, Entries }), { abortSignal })
    },
    region: async () => client.config.region(),
    close() {
      urls.close()
      client.destroy()
    },
  }
}
