import { CreateTopicCommand, DeleteTopicCommand, SNSClient, SubscribeCommand } from '@aws-sdk/client-sns'
import {
  CreateQueueCommand,
  DeleteQueueCommand,
  GetQueueAttributesCommand,
  GetQueueUrlCommand,
  SQSClient,
} from '@aws-sdk/client-sqs'
import { atEndOfFile } from './cleanups.ts'
import { type TestProcess, projectFolder, startNode } from './processes.ts'

export const awsRegion = 'eu-central-1'

/** Any will do for an emulator. Where the SDK finds these, it asks no service of AWS for others. */
export const awsCredentials = { AWS_ACCESS_KEY_ID: 'test', AWS_SECRET_ACCESS_KEY: 'test' }

for (const [name, value] of Object.entries(awsCredentials)) process.env[name] ??= value

/** Clients of the SDK and what tests need of them, for one address. */
export interface AwsAccess {
  readonly url: string
  readonly sqs: SQSClient
  readonly sns: SNSClient
  /** Makes a queue, FIFO by its name, and answers with its URL. */
  createQueue(name: string, attributes?: Record<string, string>): Promise<string>
  /** Makes a topic, FIFO by its name, with these queues behind it, and answers with its ARN. Raw delivery: true. */
  createTopic(name: string, queues: readonly string[], options?: { raw?: boolean }): Promise<string>
}

export interface AwsServer extends AwsAccess {
  readonly port: number
  readonly pid: number | undefined
  /** SIGTERM stops it in order, SIGKILL at once, SIGSTOP and SIGCONT freeze and thaw it. Waits for an end. */
  kill(signal: NodeJS.Signals): Promise<void>
  /**
   * Starts it again on the same port; stops it first when it still runs. It keeps everything in memory, so the queues
   * and topics that were made through this object are made again, empty.
   */
  restart(): Promise<void>
  /** Done by itself at the end of the test file. */
  stop(): Promise<void>
}

/**
 * SQS and SNS at WAYBILL_TEST_SQS_URL, or an emulator of this test file's own. There may be other tests' queues, so
 * take names that no other run has; what was made is removed at the end. Guard with `describeWith('sqs', …)`.
 */
export async function awsAccess(): Promise<AwsAccess> {
  const url = process.env['WAYBILL_TEST_SQS_URL']
  if (url === undefined) return startAws()
  const access = createAccess(url)
  return {
    ...access,
    async createQueue(...args) {
      const QueueUrl = await access.createQueue(...args)
      // Some tests delete a queue themselves.
      atEndOfFile(() => access.sqs.send(new DeleteQueueCommand({ QueueUrl })).catch(() => undefined))
      return QueueUrl
    },
    async createTopic(...args) {
      const TopicArn = await access.createTopic(...args)
      atEndOfFile(() => access.sns.send(new DeleteTopicCommand({ TopicArn })))
      return TopicArn
    },
  }
}

/** The emulator `fauxqs` on a free port of 127.0.0.1, as a process of its own. */
export async function startAws(): Promise<AwsServer> {
  let running: TestProcess | undefined
  const made: (() => Promise<unknown>)[] = []

  async function start(port: number): Promise<number> {
    running = startNode(`${projectFolder}test/support/aws-server.mjs`, [String(port), String(process.pid)])
    const [, listening] = await running.line(/^listening on (\d+)$/)
    return Number(listening)
  }

  async function kill(signal: NodeJS.Signals): Promise<void> {
    if (running === undefined) return
    running.signal(signal)
    if (signal !== 'SIGTERM' && signal !== 'SIGKILL') return
    await running.exit
    running = undefined
  }

  const port = await start(0)
  const access = createAccess(`http://127.0.0.1:${port}`)
  return {
    ...access,
    port,
    get pid() {
      return running?.pid
    },
    async createQueue(...args) {
      made.push(() => access.createQueue(...args))
      return access.createQueue(...args)
    },
    async createTopic(...args) {
      made.push(() => access.createTopic(...args))
      return access.createTopic(...args)
    },
    kill,
    async restart() {
      await kill('SIGTERM')
      await start(port)
      for (const make of made) await make()
    },
    stop: () => kill('SIGKILL'),
  }
}

function createAccess(url: string): AwsAccess {
  const options = { endpoint: url, region: awsRegion }
  const sqs = new SQSClient({ ...options, useQueueUrlAsEndpoint: false })
  const sns = new SNSClient(options)
  atEndOfFile(() => [sqs, sns].forEach((client) => client.destroy()))

  async function arnOf(QueueName: string): Promise<string> {
    const { QueueUrl } = await sqs.send(new GetQueueUrlCommand({ QueueName }))
    const command = new GetQueueAttributesCommand({ QueueUrl, AttributeNames: ['QueueArn'] })
    const { Attributes } = await sqs.send(command)
    return Attributes!['QueueArn']!
  }

  return {
    url,
    sqs,
    sns,
    async createQueue(QueueName, attributes = {}) {
      const fifo = QueueName.endsWith('.fifo') ? { FifoQueue: 'true' } : {}
      const command = new CreateQueueCommand({ QueueName, Attributes: { ...fifo, ...attributes } })
      return (await sqs.send(command)).QueueUrl!
    },
    async createTopic(Name, queues, { raw = true } = {}) {
      const Attributes = Name.endsWith('.fifo') ? { FifoTopic: 'true' } : {}
      const { TopicArn } = await sns.send(new CreateTopicCommand({ Name, Attributes }))
      for (const queue of queues) {
        await sns.send(
          new SubscribeCommand({
            TopicArn,
            Protocol: 'sqs',
            Endpoint: await arnOf(queue),
            Attributes: { RawMessageDelivery: String(raw) },
          }),
        )
      }
      return TopicArn!
    },
  }
}
