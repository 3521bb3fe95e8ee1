import type { JetStreamManager } from '@nats-io/jetstream'
import { pause, within } from '../../pause.ts'
import { beforeAbort } from '../abort.ts'
import type { NatsSourceSettings } from '../nats-options.ts'
import type { Reading } from '../reading/reading.ts'
import { type NatsLink, openNats } from './connection.ts'
import type { NatsLibrary } from './library.ts'
import { type TakenMessage, toTakenMessage } from './delivery.ts'
import { durableConsumer } from './durable.ts'
import { makeLeases, natsLease, natsLeaseMs } from './lease.ts'
import { type Pull, openPull, pullMs } from './pull.ts'

export interface NatsReadingOptions {
  readonly library: NatsLibrary
  readonly name: string
  readonly settings: NatsSourceSettings
  /** Tells this process from all others. */
  readonly owner: string
}

const closeLimitMs = 1_000
/** The server looks now and then which messages have waited too long. */
const expiryMarginMs = 2_000
const recoveryPauseMs = 100

/** Connects, makes the consumer if it is missing, and reads. */
export async function openNatsReading(
  { library, name, settings, owner }: NatsReadingOptions,
  signal: AbortSignal,
): Promise<Reading<TakenMessage>> {
  const { stream, consumer, readers, inboxPrefix } = settings
  const exclusive = readers === 'exclusive'
  const link = openNats(library, name, settings)
  const heard = coalesced(() => link.ping())
  let manager!: JetStreamManager
  let pull!: Pull
  let ackWaitMs = 0
  /** Recovered, and not given out yet. */
  let recovered: TakenMessage[] | undefined

  async function open(): Promise<void> {
    await link.ready
    manager = await library.jetstreamManager(link.client, { checkAPI: false })
    const { config } = await durableConsumer(manager, settings)
    ackWaitMs = (config.ack_wait ?? 0) / 1_000_000
    if (exclusive) await makeLeases(manager, stream)
    pull = openPull(link.client, { stream, consumer, inboxPrefix })
  }

  async function say(messages: readonly TakenMessage[], what: '+ACK' | '-NAK' | '+WPI'): Promise<void> {
    for (const { reply } of messages) link.client.publish(reply, what)
    await heard()
  }

  /**
   * JetStream brings back what others left only when it has waited long enough, and newer messages meanwhile. So these
   * are kept until all of the older ones are here.
   */
  async function recover(stop: AbortSignal): Promise<TakenMessage[]> {
    const found = new Map<number, TakenMessage>()
    const until = performance.now() + ackWaitMs + expiryMarginMs
    while (!stop.aborted && performance.now() < until) {
      const { num_ack_pending: pending } = await manager.consumers.info(stream, consumer)
      const missing = pending - found.size
      if (missing <= 0) break
      for (const message of await pull.take(missing, ackWaitMs / 3, stop)) {
        const taken = toTakenMessage(message)
        found.set(taken.sequence, taken)
      }
      await say([...found.values()], '+WPI')
      await pause(recoveryPauseMs, stop)
    }
    return [...found.values()].sort((a, b) => a.sequence - b.sequence)
  }

  async function take(most: number, stop: AbortSignal): Promise<readonly TakenMessage[]> {
    if (exclusive) recovered ??= await recover(stop)
    if (recovered !== undefined && recovered.length > 0) {
      return recovered.splice(0, stop.aborted ? Infinity : most)
    }
    const taken = await pull.take(most, pullMs, stop)
    // The server looks now who still waits for messages. Later one of 2.9 would mislay a message that is given back.
    if (stop.aborted) await manager.consumers.info(stream, consumer)
    return taken.map(toTakenMessage)
  }

  try {
    await beforeAbort(signal, open())
  } catch (error) {
    await link.destroy()
    throw error
  }
  return {
    keepMs: exclusive ? Math.min(ackWaitMs, natsLeaseMs) : ackWaitMs,
    lease: exclusive ? natsLease(library.jetstream(link.client), manager, { stream, consumer, owner }) : null,
    take,
    acknowledge: (message) => say([message], '+ACK'),
    keep: (messages) => say([...messages, ...(recovered ?? [])], '+WPI'),
    giveBack: (messages) => say(messages, '-NAK'),
    close: () => close(link),
  }
}

async function close(link: NatsLink): Promise<void> {
  // What was answered is still to be heard.
  if (link.alive) await within(link.ping(), closeLimitMs)
  await link.destroy()
}

/** One run for all that call it while the one before is under way. */
function coalesced(run: () => Promise<void>): () => Promise<void> {
  let last: Promise<void> = Promise.resolve()
  let next: Promise<void> | undefined
  return () =>
    (next ??= last.then(() => {
      next = undefined
      return (last = run())
    }))
}
