import { describeError, hasCode } from '../errors.ts'
import { type PublishResult, brokerUnavailable } from '../publishing/publisher.ts'
import { beforeAbort } from './abort.ts'

/** One connection for as long as it lasts: it does not reconnect, the next call opens another. */
export interface Connection {
  /** Resolves when it is open; rejects with the reason when it could not be opened. */
  readonly ready: Promise<void>
  /** False when it was lost, could not be opened, or is about to end. */
  readonly alive: boolean
  /** Resolves when the server has answered. */
  ping(): Promise<void>
  /** Ends it at once, with what is under way on it. May be called again. */
  destroy(): Promise<void>
}

export interface Session<C extends Connection> {
  readonly connection: C
  /** Ends the use. `usable: false`: it has left something without an answer, new calls take another. */
  leave(how: { usable: boolean }): void
}

/**
 * The connection of a publisher, shared by its calls. Nothing reconnects in the background: a call learns at once
 * why the broker is away, and during an outage only the probes of the relay connect.
 */
export interface Sessions<C extends Connection> {
  /** @throws BROKER_UNAVAILABLE with the reason, also after `close` and when the signal aborts */
  enter(signal: AbortSignal): Promise<Session<C>>
  /**
   * Looks whether another connection can be made when `connection` was lost under a call: if not, the messages that
   * it left without an answer say that the broker is away, and why. A lost connection alone may be their fault.
   */
  explain(connection: C, results: PublishResult[], signal: AbortSignal): Promise<PublishResult[]>
  /** Resolves when the broker answers. @throws BROKER_UNAVAILABLE with the reason */
  checkHealth(options: { signal: AbortSignal }): Promise<void>
  /** The connection made last, also when it is lost. */
  readonly last: C | undefined
  close(): Promise<void>
}

/** @param where host and port for messages, without a password */
export function createSessions<C extends Connection>(
  { name, where }: { name: string; where: string },
  open: () => C,
): Sessions<C> {
  const users = new Map<C, number>()
  const retired = new WeakSet<C>()
  let current: C | undefined
  let closed = false

  function connect(): C {
    if (closed) throw brokerUnavailable(`${name} is closed`)
    if (current !== undefined && current.alive && !retired.has(current)) return current
    if (current !== undefined) discardIfUnused(current)
    current = open()
    // Also when nobody waits any more.
    current.ready.catch(() => undefined)
    return current
  }

  function discardIfUnused(connection: C): void {
    if (!users.has(connection)) void connection.destroy()
  }

  function leave(connection: C, usable: boolean): void {
    const left = users.get(connection)! - 1
    if (left > 0) users.set(connection, left)
    else users.delete(connection)
    if (!usable) retired.add(connection)
    if (retired.has(connection) || !connection.alive || connection !== current) discardIfUnused(connection)
  }

  async function enter(signal: AbortSignal): Promise<Session<C>> {
    const connection = connect()
    users.set(connection, (users.get(connection) ?? 0) + 1)
    try {
      await beforeAbort(signal, connection.ready)
    } catch (cause) {
      leave(connection, true)
      if (closed) throw brokerUnavailable(`${name} is closed`)
      throw brokerUnavailable(`cannot connect to ${where}: ${describeError(cause, 300)}`, { cause })
    }
    let left = false
    return {
      connection,
      leave({ usable }) {
        if (!left) leave(connection, usable)
        left = true
      },
    }
  }

  async function explain(
    connection: C,
    results: PublishResult[],
    signal: AbortSignal,
  ): Promise<PublishResult[]> {
    if (connection.alive || signal.aborted || !results.some(isUnanswered)) return results
    try {
      const session = await enter(signal)
      session.leave({ usable: true })
      return results
    } catch (error) {
      return results.map((result) =>
        isUnanswered(result) ? { status: 'retry', error: error as Error } : result,
      )
    }
  }

  async function checkHealth({ signal }: { signal: AbortSignal }): Promise<void> {
    const session = await enter(signal)
    let usable = false
    try {
      await beforeAbort(signal, session.connection.ping())
      usable = true
    } catch (cause) {
      throw brokerUnavailable(`${where}: ${describeError(cause, 300)}`, { cause })
    } finally {
      session.leave({ usable })
    }
  }

  return {
    enter,
    explain,
    checkHealth,
    get last() {
      return current
    },
    async close() {
      closed = true
      await Promise.all([...users.keys(), ...(current ? [current] : [])].map((each) => each.destroy()))
    },
  }
}

function isUnanswered(result: PublishResult): boolean {
  return result.status === 'retry' && hasCode(result.error, 'PUBLISH_TIMEOUT')
}
