import { type AsyncMessage, type Channel, Connection } from 'rabbitmq-client'
import { atEndOfFile } from './cleanups.ts'

export type AmqpMessage = Omit<AsyncMessage, 'body'> & { readonly body: string }

/** Consumes a queue, the bodies being the text that was sent. */
export interface AmqpConsumer {
  readonly connection: Connection
  /** In order of arrival. */
  readonly messages: AmqpMessage[]
  /** Resolves when so many have arrived. */
  waitFor(count: number): Promise<readonly AmqpMessage[]>
  close(): Promise<void>
}

/**
 * Declares what it is told to (a durable topic exchange, a durable queue bound to all of it) and consumes the
 * queue. With no exchange: the queue of this name alone.
 */
export async function consumeQueue(
  url: string,
  queue: string,
  exchange?: string,
  messages: AmqpMessage[] = [],
): Promise<AmqpConsumer> {
  const connection = await connectAmqp(url)
  const channel = await connection.acquire()
  keepBodies(channel)
  await channel.queueDeclare({ queue, durable: true })
  if (exchange !== undefined) {
    await channel.exchangeDeclare({ exchange, type: 'topic', durable: true })
    await channel.queueBind({ queue, exchange, routingKey: '#' })
  }
  const waiting = new Set<() => void>()
  await channel.basicConsume({ queue, noAck: true }, (message) => {
    messages.push({ ...message, body: (message.body as Buffer).toString('utf8') })
    for (const wake of waiting) wake()
  })
  return {
    connection,
    messages,
    async waitFor(count) {
      while (messages.length < count) {
        await new Promise<void>((resolve) => waiting.add(resolve))
        waiting.clear()
      }
      return messages
    },
    close: async () => connection.unsafeDestroy(),
  }
}

/** A connection that is open, and is closed at the end of the test file. */
export async function connectAmqp(url: string): Promise<Connection> {
  const connection = new Connection(url)
  // A test may stop the broker; what the test waits for tells it so.
  connection.on('error', () => undefined)
  atEndOfFile(() => connection.unsafeDestroy())
  await connection.onConnect(30_000)
  return connection
}

/** The library would parse a body of JSON, and with it lose what was really sent. */
function keepBodies(channel: Channel): void {
  type Frame = { fields: { contentType?: string; clusterId?: string } }
  const inner = channel as unknown as Record<'_onHeader', (frame: Frame) => void>
  const original = inner['_onHeader'].bind(channel)
  inner['_onHeader'] = (frame) => {
    // Kept in a property that nobody uses.
    if (frame.fields.contentType !== undefined) frame.fields.clusterId = frame.fields.contentType
    delete frame.fields.contentType
    original(frame)
  }
}
