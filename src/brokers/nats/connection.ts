import { randomInt } from 'node:crypto'
import type { JetStreamClient, PubAck } from '@nats-io/jetstream'
import type { NatsConnection } from '@nats-io/transport-node'
import type { NatsConnectionSettings } from '../nats-options.ts'
import type { Connection } from '../sessions.ts'
import { connectOptions } from './connect-options.ts'
import type { NatsMessage } from './envelope.ts'
import type { NatsLibrary } from './library.ts'
import { natsFailureOf } from './outcomes.ts'
import { trackSockets } from './sockets.ts'

export interface NatsLink extends Connection {
  /** The client's connection, once it is ready. */
  readonly client: NatsConnection
  /** Largest message that the server takes, headers included, in bytes; Infinity before it said so. */
  readonly maxPayload: number
  /** Publishes to JetStream; rejects with the client's error. */
  publish(message: NatsMessage): Promise<PubAck>
}

// The signal of the call ends the waiting; the client wants a number.
const ackTimeoutMs = 2 ** 31 - 1

/** Connects to one of the servers, in random order. */
export function openNats(library: NatsLibrary, name: string, settings: NatsConnectionSettings): NatsLink {
  let connection: NatsConnection | undefined
  let jetstream: JetStreamClient | undefined
  let attempt: { destroy(): void } | undefined
  let ended = false

  async function connect(): Promise<void> {
    const servers = shuffled([settings.url].flat())
    for (const [index, server] of servers.entries()) {
      const tracked = trackSockets(() => library.connect(connectOptions(library, name, server, settings)))
      attempt = tracked
      try {
        connection = await tracked.connected
        break
      } catch (error) {
        if (ended || index === servers.length - 1) throw error
      }
    }
    jetstream = library.jetstream(connection!)
    void watch(connection!)
    if (ended) throw new Error('the connection was closed')
  }

  /** Ends with the connection. */
  async function watch(opened: NatsConnection): Promise<void> {
    for await (const { type } of opened.status()) {
      // With `ldm` the server is about to shut down, and wants its clients to go elsewhere.
      if (type === 'ldm' || type === 'disconnect') ended = true
    }
    ended = true
  }

  async function publish({ subject, data, headers }: NatsMessage): Promise<PubAck> {
    try {
      return await jetstream!.publish(subject, data, { headers, timeout: ackTimeoutMs })
    } catch (error) {
      // The requests are told sooner than everybody else.
      if (natsFailureOf(error) === 'lost') ended = true
      throw error
    }
  }

  async function destroy(): Promise<void> {
    ended = true
    attempt?.destroy()
    await connection?.close()
  }

  const ready = connect().catch(async (error: unknown) => {
    await destroy()
    throw error
  })
  return {
    ready,
    get alive() {
      return !ended && connection?.isClosed() !== true
    },
    get client() {
      if (connection === undefined) throw new Error('the connection is not ready')
      return connection
    },
    get maxPayload() {
      return connection?.info?.max_payload ?? Infinity
    },
    publish,
    ping: () => connection!.flush(),
    destroy,
  }
}

function shuffled(servers: readonly string[]): string[] {
  const left = [...servers]
  return servers.map(() => left.splice(randomInt(left.length), 1)[0]!)
}
