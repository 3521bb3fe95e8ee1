import { randomUUID } from 'node:crypto'
import type { Msg, NatsConnection } from '@nats-io/transport-node'
import { createSignal, within } from '../../pause.ts'

export interface PullOptions {
  readonly stream: string
  readonly consumer: string
  readonly inboxPrefix: string
}

/** Messages of a durable consumer, asked for a number at a time. */
export interface Pull {
  /**
   * Waits so long for at most so many. When the signal aborts, nothing is asked for any more, and it answers with all
   * that was on its way.
   */
  take(most: number, waitMs: number, signal: AbortSignal): Promise<readonly Msg[]>
}

/** A request ends at the server after so long; one of a process that died takes messages until then. */
export const pullMs = 5_000
const silenceMs = pullMs + 3_000
const drainLimitMs = 1_000

export function openPull(client: NatsConnection, { stream, consumer, inboxPrefix }: PullOptions): Pull {
  const inbox = `${inboxPrefix}.${randomUUID()}`
  const arrived: Msg[] = []
  const changed = createSignal()
  /** Messages that the request under way may still bring. */
  let due = 0
  let askedAt = 0
  let failure: Error | undefined

  const subscription = client.subscribe(inbox, {
    callback(error, message) {
      if (error !== null) return fail(error)
      const { code = 0, description = '' } = message.headers ?? {}
      if (code === 0) {
        arrived.push(message)
        due--
      } else if (code === 404 || code === 408) due = 0
      else fail(new Error(`the server ended the request: ${description} (${code})`))
      changed.notify()
    },
  })
  void watch()

  /** The server says beside the answers what this user may not do, acknowledge for example. */
  async function watch(): Promise<void> {
    for await (const status of client.status()) if (status.type === 'error') fail(status.error)
    fail(new Error('the connection was lost'))
  }

  function fail(error: Error): void {
    failure ??= error
    changed.notify()
  }

  function request(batch: number): void {
    due = batch
    askedAt = performance.now()
    const terms = { batch, expires: pullMs * 1_000_000 }
    client.publish(`$JS.API.CONSUMER.MSG.NEXT.${stream}.${consumer}`, JSON.stringify(terms), { reply: inbox })
  }

  async function drain(): Promise<readonly Msg[]> {
    if (!client.isClosed()) await within(subscription.drain(), drainLimitMs)
    return arrived.splice(0)
  }

  return {
    async take(most, waitMs, signal) {
      const until = performance.now() + waitMs
      const wake = () => changed.notify()
      signal.addEventListener('abort', wake, { once: true })
      try {
        while (arrived.length === 0 && failure === undefined && !signal.aborted) {
          const now = performance.now()
          if (now >= until) return []
          if (due <= 0) request(most)
          else if (now - askedAt > silenceMs) fail(new Error('the server has fallen silent'))
          await changed.wait(Math.min(until - now, silenceMs))
        }
      } finally {
        signal.removeEventListener('abort', wake)
      }
      if (failure !== undefined) throw failure
      return signal.aborted ? drain() : arrived.splice(0, most)
    },
  }
}
