import { resolveOptions } from '../options.ts'
import type { Publisher } from '../publishing/publisher.ts'
import { clientConfig } from './aws/client.ts'
import { createPlaces } from './aws/names.ts'
import { type Service, createAwsPublisher } from './aws/publisher.ts'
import type { Broker } from './broker.ts'
import { loadDependency } from './dependency.ts'
import { type SnsOptions, type SnsSettings, snsOptions } from './sns-options.ts'

export type { SnsOptions } from './sns-options.ts'

/**
 * Publishes to topics of Amazon SNS, FIFO or standard, in batches. Needs the package `@aws-sdk/client-sns`, which
 * finds credentials in its usual places.
 *
 * @throws CONFIGURATION_INVALID, DEPENDENCY_MISSING
 */
export async function snsPublisher(options: SnsOptions & { name?: string }): Promise<Publisher> {
  const { name = 'sns', ...rest } = options
  return createPublisher(name, resolveOptions(snsOptions, rest, { path: name }))
}

export const broker: Broker<typeof snsOptions> = { options: snsOptions, create: createPublisher }

async function createPublisher(name: string, settings: SnsSettings): Promise<Publisher> {
  const places = createPlaces(settings.topicArn, { kind: 'topic', maxLength: 256 })
  return createAwsPublisher(name, await openService(settings), places, settings)
}

async function openService(settings: SnsSettings): Promise<Service> {
  const sdk = await loadDependency('sns', '@aws-sdk/client-sns', () => import('@aws-sdk/client-sns'))
  const { SNSClient, PublishBatchCommand } = sdk
  const region = settings.topicArn.split(':')[3]!
  const client = new SNSClient(clientConfig({ ...settings, region }))

  return {
    type: 'sns',
    kind: 'topic',
    send(place, entries, abortSignal) {
      const PublishBatchRequestEntries = entries.map(
        ({ body: Message, attributes: MessageAttributes, fifo }, number) => ({
          Id: String(number),
          Message,
          MessageAttributes,
          ...fifo,
        }),
      )
      return client.send(new PublishBatchCommand({ TopicArn: place, PublishBatchRequestEntries }), {
        abortSignal,
      })
    },
    region: async () => region,
    close: () => client.destroy(),
  }
}
