import type { AsyncMessage, Channel, Connection } from 'rabbitmq-client'
import { createSharedAbort, within } from '../../pause.ts'
import { proveAlone } from './exclusive.ts'
import { keepBodies } from './raw-bodies.ts'
import { type ConnectionClass, frameBytes } from './session.ts'

export interface ConsumingOptions {
  readonly queue: string
  readonly prefetch: number
  readonly readers: 'exclusive' | 'single-active' | 'shared'
  /** Called in the order of arrival, not after `quiet`, and not once the connection is lost. */
  readonly deliver: (message: AsyncMessage, consuming: Consuming) => void
}

/** A connection that consumes, for as long as it lasts. It does not reconnect. */
export interface Consuming {
  /** Aborts when the connection, the channel or the consumer is gone; its reason is why. */
  readonly lost: AbortSignal
  /** To be aborted when a message was refused that only the end of this connection brings back in order. */
  readonly refused: AbortController
  /** Acknowledges, when that still reaches the broker. */
  acknowledge(message: AsyncMessage): void
  /** Puts the message back to its place in the queue, when that still reaches the broker. */
  requeue(message: AsyncMessage): void
  /** Takes nothing more. What has no answer yet stays ours until `close`. */
  quiet(): Promise<void>
  /** The broker puts back, in order, what is not acknowledged. */
  close(): Promise<void>
}

export interface Opening {
  readonly Connection: ConnectionClass
  readonly optionsFor: (frameBytes: number) => Record<string, unknown>
  readonly frameBytes: number
  /** Gives up as long as it is not open. */
  readonly signal: AbortSignal
}

const closeLimitMs = 1000

/** Rejects with the broker's error, with that of the network, or with CONFIGURATION_INVALID: see `proveAlone`. */
export async function openConsuming(opening: Opening, options: ConsumingOptions): Promise<Consuming> {
  const { Connection, optionsFor, frameBytes: wanted, signal } = opening
  // The longest pause that a timer takes: its own reconnecting is never wanted.
  const pause = { retryLow: 2 ** 31 - 1, retryHigh: 2 ** 31 - 1 }
  const connection = new Connection({ ...optionsFor(wanted), ...pause })
  const lost = createSharedAbort()
  const failed = new Promise<never>((_, reject) => {
    const lose = () => reject(lost.signal.reason as Error)
    lost.signal.addEventListener('abort', lose, { once: true })
  })
  failed.catch(() => undefined)
  const lose = (reason: Error) => {
    lost.abort(reason)
    connection.unsafeDestroy()
  }
  const end = () => lose(new Error('the source has stopped'))
  signal.addEventListener('abort', end, { once: true })
  connection.on('error', lose)
  let allowed: number
  try {
    if (signal.aborted) end()
    const channel = await Promise.race([connection.acquire({ emitErrorsFromChannel: true }), failed])
    allowed = frameBytes(connection)
    if (allowed >= wanted)
      return await Promise.race([consume(connection, channel, { lost, lose }, options), failed])
    lose(new Error('the broker allows smaller frames'))
  } catch (error) {
    lose(error as Error)
    throw lost.signal.reason
  } finally {
    signal.removeEventListener('abort', end)
  }
  // The library counts the frames of a body by the size that it asked for.
  return openConsuming({ ...opening, frameBytes: allowed }, options)
}

async function consume(
  connection: Connection,
  channel: Channel,
  { lost, lose }: { lost: AbortController; lose: (reason: Error) => void },
  { queue, prefetch, readers, deliver }: ConsumingOptions,
): Promise<Consuming> {
  let taking = true
  let closing = false
  const onClose = () => {
    // Why, the library says by an error, and after this.
    if (!closing) setImmediate(lose, new Error('the channel was closed'))
  }
  keepBodies(channel)
  channel.on('error', lose)
  channel.on('close', onClose)
  channel.on('basic.cancel', () =>
    lose(new Error('the broker ended the consumer: its queue is gone or moved')),
  )
  await channel.basicQos({ prefetchCount: prefetch })

  const reaches = () => channel.active && !lost.signal.aborted
  const consuming: Consuming = {
    lost: lost.signal,
    refused: new AbortController(),
    acknowledge({ deliveryTag }) {
      if (reaches()) channel.basicAck({ deliveryTag })
    },
    requeue({ deliveryTag }) {
      if (reaches()) channel.basicNack({ deliveryTag, requeue: true })
    },
    async quiet() {
      taking = false
      // Where order counts the consumer stays, and what comes is left for `close`: a quorum queue puts back a message
      // that crosses the cancellation behind younger ones, and so it does with those that are rejected.
      if (readers === 'shared' && reaches()) await channel.basicCancel({ consumerTag }).catch(() => undefined)
    },
    async close() {
      closing = true
      taking = false
      const close = async () => {
        await channel.close()
        await connection.close()
      }
      if (!lost.signal.aborted) await within(close(), closeLimitMs)
      lose(new Error('the source has stopped'))
    },
  }
  let early: AsyncMessage[] | undefined = []
  const take = (message: AsyncMessage) => {
    if (taking && !lost.signal.aborted) deliver(message, consuming)
  }
  const { consumerTag } = await channel.basicConsume(
    { queue, exclusive: readers === 'exclusive' },
    (message) => {
      if (early === undefined) take(message)
      else early.push(message)
    },
  )
  if (readers === 'exclusive') await proveAlone(connection, queue)
  // When the caller has it.
  setImmediate(() => {
    for (const message of early ?? []) take(message)
    early = undefined
  })
  return consuming
}
