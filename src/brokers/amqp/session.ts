import type { Channel, Connection, ReturnedMessage } from 'rabbitmq-client'
import { whenAborted } from '../abort.ts'
import type { Enveloped } from './envelope.ts'

/** The constructor of `rabbitmq-client`'s connection, which is loaded only when it is used. */
export type ConnectionClass = new (options: Record<string, unknown>) => Connection

/** What became of one message: confirmed, given back as unroutable, an error, or undefined: no word yet. */
export type Delivery = 'confirmed' | ReturnedMessage | Error | undefined

/**
 * One connection for as long as it lasts. It does not reconnect: the next publish call opens another, so that a
 * call learns at once why the broker is away, and nothing runs in the background during an outage.
 */
export interface Session {
  /** Resolves when the connection is open; rejects with the reason when it could not be opened. */
  readonly ready: Promise<void>
  /** False when another one is needed: the connection was lost, or has left a call without an answer. */
  readonly alive: boolean
  /** Why the broker takes no messages (an alarm of memory or disk), or undefined. */
  readonly blocked: string | undefined
  /** Largest frame that both sides take, in bytes. */
  readonly frameBytes: number
  /** Sends messages on a channel of their own and waits for the confirms, until `signal` aborts. */
  send(messages: readonly Enveloped[], signal: AbortSignal): Promise<Delivery[]>
  /** Rejects with the broker's error when the exchange does not exist. */
  checkExchange(exchange: string): Promise<void>
  /** Closes in order when nothing is under way, otherwise at once. */
  close(): Promise<void>
  destroy(): void
}

const closeLimitMs = 1000

export function openSession(Connection: ConnectionClass, options: Record<string, unknown>): Session {
  // The longest pause that a timer takes: its own reconnecting is never wanted.
  const pause = { retryLow: 2 ** 31 - 1, retryHigh: 2 ** 31 - 1 }
  const connection = new Connection({ ...options, ...pause })
  const idle: Channel[] = []
  let alive = true
  let retired = false
  let blocked: string | undefined
  let sending = 0

  let opened!: () => void
  let failed!: (error: Error) => void
  const ready = new Promise<void>((resolve, reject) => {
    opened = resolve
    failed = reject
  })
  // Also when nobody waits any more.
  ready.catch(() => undefined)

  function destroy(reason = new Error('the connection was closed')): void {
    alive = false
    connection.unsafeDestroy()
    failed(reason)
  }

  connection.on('connection', opened)
  connection.on('error', destroy)
  connection.on('connection.blocked', (reason: string) => (blocked = reason))
  connection.on('connection.unblocked', () => (blocked = undefined))

  async function takeChannel(): Promise<Channel> {
    for (let channel = idle.pop(); channel !== undefined; channel = idle.pop()) {
      if (channel.active) return channel
    }
    const channel = await connection.acquire({ emitErrorsFromChannel: true })
    channel.on('error', () => undefined)
    await channel.confirmSelect()
    return channel
  }

  async function send(messages: readonly Enveloped[], signal: AbortSignal): Promise<Delivery[]> {
    const deliveries: Delivery[] = messages.map(() => undefined)
    const aborted = whenAborted(signal)
    sending++
    try {
      const channel = await Promise.race([takeChannel(), aborted.promise])
      if (channel === undefined) {
        retired = true
        return deliveries
      }
      const returned = collectReturns(channel)
      const confirms = messages.map(async ({ envelope, body }, index) => {
        try {
          await channel.basicPublish(envelope, body)
          deliveries[index] = 'confirmed'
        } catch (error) {
          deliveries[index] = error as Error
        }
      })
      await Promise.race([Promise.all(confirms), aborted.promise])
      // What comes back unroutable is told one turn after its confirm.
      await new Promise((resolve) => setImmediate(resolve))
      returned.stop()
      if (!deliveries.includes(undefined)) idle.push(channel)
      // Under an alarm the confirms come when it ends, without one the connection may be dead: calls of others
      // that still run on it may end, new ones take another.
      else if (blocked === undefined) retired = true
      // A copy: a confirm that comes later must not change what was answered.
      return deliveries.map((delivery, index) =>
        delivery === 'confirmed'
          ? (returned.messages.get(messages[index]!.envelope.messageId) ?? delivery)
          : delivery,
      )
    } finally {
      sending--
      aborted.release()
      if (retired && sending === 0) destroy()
    }
  }

  return {
    ready,
    get alive() {
      return alive && !retired
    },
    get blocked() {
      return blocked
    },
    get frameBytes() {
      return frameBytes(connection)
    },
    send,
    async checkExchange(exchange) {
      const channel = await takeChannel()
      await channel.exchangeDeclare({ exchange, passive: true })
      idle.push(channel)
    },
    async close() {
      if (alive && sending === 0 && blocked === undefined) await closeInOrder(connection, idle)
      destroy()
    },
    destroy: () => destroy(),
  }
}

function collectReturns(channel: Channel) {
  const messages = new Map<string, ReturnedMessage>()
  const add = (message: ReturnedMessage) => messages.set(message.messageId ?? '', message)
  channel.on('basic.return', add)
  return { messages, stop: () => channel.off('basic.return', add) }
}

async function closeInOrder(connection: Connection, channels: readonly Channel[]): Promise<void> {
  let timer: NodeJS.Timeout | undefined
  const limit = new Promise<void>((resolve) => (timer = setTimeout(resolve, closeLimitMs)))
  const close = async () => {
    await Promise.all(channels.map((channel) => channel.close()))
    await connection.close()
  }
  await Promise.race([close().catch(() => undefined), limit])
  clearTimeout(timer)
}

/** The library cuts bodies to the size it asked for, also when the broker allowed less: so it must be known. */
export function frameBytes(connection: Connection): number {
  const { _state } = connection as unknown as { _state?: { frameMax?: number } }
  return _state?.frameMax ?? Number.POSITIVE_INFINITY
}
