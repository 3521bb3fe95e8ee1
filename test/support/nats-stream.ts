import { type JetStreamManager, type StoredMsg, jetstreamManager } from '@nats-io/jetstream'
import { type NatsConnection, connect } from '@nats-io/transport-node'
import { atEndOfFile } from './cleanups.ts'

export interface StoredMessage {
  readonly subject: string
  readonly seq: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

/** A stream of a NATS server, and all that is in it. */
export interface NatsStream {
  readonly connection: NatsConnection
  readonly manager: JetStreamManager
  /** Everything stored so far, in order; also after a restart of the server. */
  messages(): Promise<readonly StoredMessage[]>
  close(): Promise<void>
}

/** A connection that is closed at the end of the test file. */
export async function connectNats(url: string): Promise<NatsConnection> {
  const connection = await connect({ servers: new URL(url).host, reconnect: false })
  atEndOfFile(() => connection.close())
  return connection
}

/** Makes a stream, or takes the one that is there. */
export async function createStream(url: string, name: string, subjects: string[]): Promise<NatsStream> {
  let connection = await connectNats(url)
  let manager = await jetstreamManager(connection)
  await manager.streams.add({ name, subjects })
  const seen: StoredMessage[] = []
  let next = 1

  async function messages(): Promise<readonly StoredMessage[]> {
    if (connection.isClosed()) {
      connection = await connectNats(url)
      manager = await jetstreamManager(connection)
    }
    const { state } = await manager.streams.info(name)
    for (; next <= state.last_seq; next++) {
      const stored = await manager.streams.getMessage(name, { seq: next })
      if (stored !== null) seen.push(toStored(stored))
    }
    return seen
  }

  return {
    get connection() {
      return connection
    },
    get manager() {
      return manager
    },
    messages,
    close: () => connection.close(),
  }
}

function toStored({ subject, seq, data, header }: StoredMsg): StoredMessage {
  const headers = Object.fromEntries([...header].map(([key, values]) => [key, values.join(',')]))
  return { subject, seq, headers, body: Buffer.from(data).toString('utf8') }
}
