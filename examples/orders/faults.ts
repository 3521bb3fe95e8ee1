import { connect } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import type { Ledger } from './ledger.ts'
import type { Death, LogLine } from '../support/relay-process.ts'
import type { Stage } from './stage.ts'

export interface Outage {
  /** What a connection got: ECONNREFUSED. */
  refusal: string
  /** The relay found out by itself. */
  noticed: boolean
  /** Events that waited at the end of it. */
  pending: number
  /** The sum of all attempts that were counted until then. */
  attempts: number
}

export interface Faults {
  /** To be called after the commit of the receiver and before its answer. */
  handled(): Promise<void>
  /** To be told every line of the relay's log. */
  onLog(line: LogLine): void
  /** Resolves when so many events have been delivered. */
  reached(delivered: number): Promise<void>
  /**
   * Kills the relay at the worst moment: the receiver has committed an event and not yet answered, so that the
   * outbox does not know.
   */
  killRelay(stage: Stage, delivered: number): Promise<Death>
  /** Closes the receiver until the relay has noticed, and so many milliseconds more. */
  closeReceiver(stage: Stage, ms: number): Promise<Outage>
}

/** Does harm, and reports it as seen from outside. Everything rejects when the signal aborts. */
export function createFaults(ledger: Ledger, signal: AbortSignal): Faults {
  let isAway = false
  let trap: { delivered: number; spring: () => Promise<void> } | undefined

  async function until(condition: () => boolean, limitMs = Infinity): Promise<void> {
    const limit = performance.now() + limitMs
    while (!condition() && performance.now() < limit) await delay(20, undefined, { signal })
  }

  return {
    async handled() {
      if (trap === undefined || ledger.delivered < trap.delivered) return
      const { spring } = trap
      trap = undefined
      await spring()
    },
    onLog({ event }) {
      if (event === 'destination.down') isAway = true
      if (event === 'destination.up') isAway = false
    },
    reached: (delivered) => until(() => ledger.delivered >= delivered),
    async killRelay({ relay }, delivered) {
      let death: Death | undefined
      trap = {
        delivered,
        async spring() {
          death = await relay.kill()
        },
      }
      await until(() => death !== undefined)
      return death!
    },
    async closeReceiver({ receiver, orders }, ms) {
      await receiver.close()
      await until(() => isAway, 20_000)
      const noticed = isAway
      await delay(ms, undefined, { signal })
      const { rows } = await orders.query<{ pending: number; attempts: number }>(
        `SELECT count(*) FILTER (WHERE processed_at IS NULL)::int AS pending, sum(attempts)::int AS attempts
         FROM waybill.outbox_events`,
      )
      const refusal = await knock(new URL(receiver.url))
      await receiver.open()
      return { refusal, noticed, ...rows[0]! }
    },
  }
}

/** What somebody gets who connects. */
function knock({ hostname, port }: URL): Promise<string> {
  return new Promise((resolve) => {
    const socket = connect({ host: hostname, port: Number(port) })
    socket.once('connect', () => {
      socket.destroy()
      resolve('an open connection')
    })
    socket.once('error', ({ code }: NodeJS.ErrnoException) => resolve(code ?? 'an error'))
  })
}
