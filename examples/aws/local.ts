import {
  CreateQueueCommand,
  DeleteMessageCommand,
  ReceiveMessageCommand,
  SQSClient,
} from '@aws-sdk/client-sqs'
import type { AddressInfo } from 'node:net'
import { buildApp } from 'fauxqs'
import { Pool } from 'pg'
import { startPostgres } from '../../scripts/embedded-postgres.ts'
import { pg } from '../../src/clients/pg.ts'
import { createOutbox } from '../../src/index.ts'
import { migrate } from '../../src/schema/index.ts'

/** What the examples need and you have already: a database with the outbox in it, SQS and SNS. */
export interface Local {
  readonly databaseUrl: string
  readonly endpoint: string
  readonly region: string
  /** Writes an order and its events in one transaction, as a service does. */
  placeOrder(id: string): Promise<void>
  close(): Promise<void>
}

/** Everything on this machine: PostgreSQL from an npm package, and an emulator of SQS and SNS. */
export async function startLocal(): Promise<Local> {
  process.env['AWS_ACCESS_KEY_ID'] ??= 'any'
  process.env['AWS_SECRET_ACCESS_KEY'] ??= 'any'
  const postgres = await startPostgres()
  const emulator = buildApp({ logger: false })
  await emulator.listen({ port: 0, host: '127.0.0.1' })
  const { port } = emulator.server.address() as AddressInfo
  await migrate({ databaseUrl: postgres.url })
  const pool = new Pool({ connectionString: postgres.url })
  await pool.query('CREATE TABLE orders (id text PRIMARY KEY)')
  const outbox = createOutbox({ client: pg() })

  return {
    databaseUrl: postgres.url,
    endpoint: `http://127.0.0.1:${port}`,
    region: 'eu-central-1',
    async placeOrder(id) {
      const tx = await pool.connect()
      try {
        await tx.query('BEGIN')
        await tx.query('INSERT INTO orders (id) VALUES ($1)', [id])
        const event = { aggregate: ['order', id], headers: { tenant: 'north' } } as const
        await outbox.publish(tx, [
          { ...event, type: 'order.created', payload: { order_id: id } },
          { ...event, type: 'order.paid', payload: { order_id: id, total: 12.5 } },
        ])
        await tx.query('COMMIT')
      } finally {
        tx.release()
      }
    },
    async close() {
      await pool.end()
      await emulator.close()
      await postgres.stop()
    },
  }
}

/** The other side. A service of yours keeps the id in the transaction of its own change, and ends a repetition there. */
export function createQueueReader({ endpoint, region }: Local) {
  const sqs = new SQSClient({ endpoint, region, useQueueUrlAsEndpoint: false })

  return {
    async createQueue(QueueName: string): Promise<string> {
      const Attributes = QueueName.endsWith('.fifo') ? { FifoQueue: 'true' } : {}
      return (await sqs.send(new CreateQueueCommand({ QueueName, Attributes }))).QueueUrl!
    },
    /** Receives so many messages, and says what is in them. */
    async receive(QueueUrl: string, count: number, print: (line: string) => void): Promise<void> {
      for (let left = count; left > 0;) {
        const { Messages = [] } = await sqs.send(
          new ReceiveMessageCommand({
            QueueUrl,
            WaitTimeSeconds: 10,
            MessageAttributeNames: ['All'],
            MessageSystemAttributeNames: ['MessageGroupId'],
          }),
        )
        for (const { Body, MessageAttributes = {}, Attributes, ReceiptHandle } of Messages) {
          const { eventType, headers } = MessageAttributes
          const group = Attributes?.MessageGroupId ?? 'none'
          print(`${eventType?.StringValue} ${Body}, group ${group}, own headers ${headers?.StringValue}`)
          await sqs.send(new DeleteMessageCommand({ QueueUrl, ReceiptHandle }))
          left--
        }
      }
    },
    close: () => sqs.destroy(),
  }
}
