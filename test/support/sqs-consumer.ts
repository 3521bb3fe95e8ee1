import {
  DeleteMessageBatchCommand,
  type Message,
  ReceiveMessageCommand,
  type SQSClient,
} from '@aws-sdk/client-sqs'
import { atEndOfFile } from './cleanups.ts'

/** A message as it came out of a queue. */
export interface SqsMessage {
  readonly body: string
  /** The attributes of the message as text, the one with the own headers among them. */
  readonly attributes: Readonly<Record<string, string>>
  readonly group: string | undefined
  readonly deduplicationId: string | undefined
}

/** Empties a queue. */
export interface SqsConsumer {
  /** In order of arrival. */
  readonly messages: SqsMessage[]
  /** Resolves when so many have arrived. */
  waitFor(count: number): Promise<readonly SqsMessage[]>
  close(): Promise<void>
}

/** Takes everything out of a queue, also when the queue is away for a while. */
export function consumeSqs(sqs: SQSClient, queueUrl: string): SqsConsumer {
  const messages: SqsMessage[] = []
  const waiting = new Set<() => void>()
  const closing = new AbortController()

  async function poll(): Promise<void> {
    const abortSignal = closing.signal
    const receive = new ReceiveMessageCommand({
      QueueUrl: queueUrl,
      MaxNumberOfMessages: 10,
      WaitTimeSeconds: 5,
      MessageAttributeNames: ['All'],
      MessageSystemAttributeNames: ['All'],
    })
    const { Messages = [] } = await sqs.send(receive, { abortSignal })
    if (Messages.length === 0) return
    messages.push(...Messages.map(toMessage))
    const Entries = Messages.map(({ ReceiptHandle }, n) => ({ Id: String(n), ReceiptHandle }))
    await sqs.send(new DeleteMessageBatchCommand({ QueueUrl: queueUrl, Entries }), { abortSignal })
    for (const wake of waiting) wake()
    waiting.clear()
  }

  async function run(): Promise<void> {
    while (!closing.signal.aborted) {
      // The server may be stopped by the test: then a moment later again.
      await poll().catch(() => new Promise((resolve) => setTimeout(resolve, 20)))
    }
  }

  const done = run()
  async function close(): Promise<void> {
    closing.abort()
    await done
  }
  atEndOfFile(close)
  return {
    messages,
    async waitFor(count) {
      while (messages.length < count) await new Promise<void>((resolve) => waiting.add(resolve))
      return messages
    },
    close,
  }
}

function toMessage({ Body = '', MessageAttributes = {}, Attributes = {} }: Message): SqsMessage {
  return {
    body: Body,
    attributes: Object.fromEntries(
      Object.entries(MessageAttributes).map(([name, { StringValue = '' }]) => [name, StringValue]),
    ),
    group: Attributes.MessageGroupId,
    deduplicationId: Attributes.MessageDeduplicationId,
  }
}

/** All headers by name, those in the attribute `headers` unfolded. */
export function headersOf({ attributes: { headers = '{}', ...rest } }: SqsMessage): Record<string, string> {
  return { ...(JSON.parse(headers) as Record<string, string>), ...rest }
}
