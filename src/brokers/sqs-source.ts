import { randomUUID } from 'node:crypto'
import { type OptionsInput, type OptionsOf, integer, object, resolveOptions, string } from '../options.ts'
import type { Source } from '../publishing/source.ts'
import { clientConfig } from './aws/client.ts'
import { connection, region } from './aws/options.ts'
import { createQueueUrls } from './aws/queue-urls.ts'
import type { Queue } from './aws/queue.ts'
import { createQueueSource } from './aws/source.ts'
import { loadDependency } from './dependency.ts'
import { isQueue } from './sqs-options.ts'

export const sqsSourceOptions = object({
  queue: string({
    accepts: (text) => isQueue(text) && !text.includes('{topic}'),
    expected: 'the name or the URL of a queue',
  }).describe(
    'the queue, which must exist; one whose name ends in `.fifo` keeps the order of each aggregate',
  ),
  region,
  prefetch: integer({ min: 1, max: 10_000 })
    .default(100)
    .describe('messages that may be without an answer at once'),
  visibilitySeconds: integer({ min: 2, max: 43_200 })
    .default(60)
    .describe(
      'how long a message stays hidden from others when this process ends, in seconds; it is renewed for as long as ' +
        'the message is at work',
    ),
  waitSeconds: integer({ min: 1, max: 20 })
    .default(5)
    .describe('how long one request waits for messages, in seconds; a stop waits for its end'),
  ...connection,
})

type SqsSourceSettings = OptionsOf<typeof sqsSourceOptions>
/** What a user may write for {@link sqsSource}. */
export type SqsSourceOptions = OptionsInput<typeof sqsSourceOptions>

/**
 * Reads a queue of Amazon SQS, for `createConsumer`. Needs the package `@aws-sdk/client-sqs`, which finds region and
 * credentials in its usual places.
 *
 *     const source = sqsSource({ queue: 'outbox-event-order.fifo' })
 *
 * @throws CONFIGURATION_INVALID; `start` rejects with DEPENDENCY_MISSING, and with BROKER_UNAVAILABLE when the queue or
 *   the credentials are refused
 */
export function sqsSource(options: SqsSourceOptions & { name?: string }): Source {
  const { name = 'sqs', ...rest } = options
  const settings = resolveOptions(sqsSourceOptions, rest, { path: name })
  return createQueueSource(name, settings, () => openQueue(settings))
}

async function openQueue(settings: SqsSourceSettings): Promise<Queue> {
  const sdk = await loadDependency('sqs', '@aws-sdk/client-sqs', () => import('@aws-sdk/client-sqs'))
  const { SQSClient, GetQueueUrlCommand, ReceiveMessageCommand } = sdk
  const { ChangeMessageVisibilityBatchCommand, DeleteMessageBatchCommand } = sdk
  // One that receives, and four each that delete, renew and give back.
  const config = clientConfig({ ...settings, connections: 16 })
  const client = new SQSClient({ ...config, useQueueUrlAsEndpoint: false })
  const urls = createQueueUrls(async (QueueName, abortSignal) => {
    const { QueueUrl } = await client.send(new GetQueueUrlCommand({ QueueName }), { abortSignal })
    return QueueUrl ?? ''
  })
  const url = () => urls.get(settings.queue)
  const limitMs = settings.connectTimeoutMs + answerLimitMs
  const isFifo = settings.queue.endsWith('.fifo')

  return {
    receive: (MaxNumberOfMessages, WaitTimeSeconds, signal) =>
      limited(signal, limitMs + WaitTimeSeconds * 1000, async (abortSignal) => {
        const command = new ReceiveMessageCommand({
          QueueUrl: await url(),
          MaxNumberOfMessages,
          WaitTimeSeconds,
          VisibilityTimeout: settings.visibilitySeconds,
          MessageAttributeNames: ['All'],
          MessageSystemAttributeNames: ['ApproximateReceiveCount', 'MessageGroupId'],
          // The SDK tries again when the answer was lost, and with it gets the same messages, not those after them.
          ...(isFifo ? { ReceiveRequestAttemptId: randomUUID() } : {}),
        })
        return (await client.send(command, { abortSignal })).Messages ?? []
      }),
    remove: (handles, signal) =>
      limited(signal, limitMs, async (abortSignal) => {
        const Entries = handles.map((ReceiptHandle, number) => ({ Id: String(number), ReceiptHandle }))
        const command = new DeleteMessageBatchCommand({ QueueUrl: await url(), Entries })
        return (await client.send(command, { abortSignal })).Failed ?? []
      }),
    hide: (items, signal) =>
      limited(signal, limitMs, async (abortSignal) => {
        const Entries = items.map(({ handle, seconds }, number) => ({
          Id: String(number),
          ReceiptHandle: handle,
          VisibilityTimeout: seconds,
        }))
        const command = new ChangeMessageVisibilityBatchCommand({ QueueUrl: await url(), Entries })
        return (await client.send(command, { abortSignal })).Failed ?? []
      }),
    region: async () => client.config.region(),
    close() {
      urls.close()
      client.destroy()
    },
  }
}

/** A request without an answer ends, for its connection may be dead without a word. */
const answerLimitMs = 10_000

async function limited<T>(
  signal: AbortSignal,
  ms: number,
  send: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const controller = new AbortController()
  const abort = () => controller.abort()
  const timer = setTimeout(abort, ms)
  if (signal.aborted) abort()
  else signal.addEventListener('abort', abort, { once: true })
  try {
    return await send(controller.signal)
  } finally {
    clearTimeout(timer)
    signal.removeEventListener('abort', abort)
  }
}
