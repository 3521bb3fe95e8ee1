import { type ConnectionOptions, type Session, createConnection } from '../database/connection.ts'
import { inSchema } from '../database/identifiers.ts'
import { describeError } from '../errors.ts'
import { pause, retryPauseMs } from '../pause.ts'
import type { Telemetry } from '../telemetry/events.ts'

export interface ListenerOptions {
  database: ConnectionOptions
  telemetry: Telemetry
  /** Someone wrote, or something was missed: look now. `buckets`: a bucket became free, or holds other events now. */
  onNotify: (about: 'events' | 'buckets') => void
}

/** Hears the wake-up. On a connection of its own, never in a transaction, checked by a round trip. */
export interface Listener {
  /** `down`: not connected now, `pooled`: a transaction pooler stands between, there will be none. */
  readonly state: 'down' | 'up' | 'pooled'
  start(): void
  stop(): Promise<void>
}

const checkEveryMs = 5_000
const checkTimeoutMs = 5_000
const reconnectMaxMs = 5_000

export function createListener({ database, telemetry, onNotify }: ListenerOptions): Listener {
  const stopping = new AbortController()
  let state: 'down' | 'up' | 'pooled' = 'down'
  let loop: Promise<void> | undefined

  const connection = createConnection({
    ...database,
    applicationName: 'waybill listen',
    queryTimeoutMs: checkTimeoutMs,
    async onConnect({ client, pooled }) {
      if (pooled) return
      client.on('notification', ({ payload }) => onNotify(payload === 'buckets' ? 'buckets' : 'events'))
      // The channel carries the oid of the table, which another database or a restored dump has not.
      const { rows } = await client.query(
        inSchema(`SELECT 'waybill_' || '"waybill".outbox_events'::regclass::oid AS channel`, database.schema),
      )
      await client.query(`LISTEN "${String(rows[0]!['channel'])}"`)
    },
  })

  async function run(): Promise<void> {
    let failures = 0
    let heard: Session | undefined
    while (!stopping.signal.aborted) {
      try {
        const session = await connection.session()
        if (session.pooled) {
          state = 'pooled'
          telemetry.emit('listener.pooled', {})
          await connection.close()
          return
        }
        await connection.query('SELECT 1')
        // The end of the one at hand must be seen: the check may have been answered by the next.
        if ((await connection.session()) !== session) continue
        if (state !== 'up') {
          state = 'up'
          telemetry.emit('listener.up', {})
        }
        // Whatever was said while nobody listened is lost, also when the next session came at once.
        if (heard !== session) onNotify('buckets')
        heard = session
        failures = 0
        await untilCheck(session.client)
      } catch (error) {
        if (stopping.signal.aborted) return
        if (state === 'up' || failures === 0)
          telemetry.emit('listener.down', { error: describeError(error, 300) })
        const wasUp = state === 'up'
        state = 'down'
        // Who sleeps would wait for a word that cannot come: awake it polls.
        if (wasUp) onNotify('events')
        connection.reset()
        await pause(retryPauseMs(failures++, reconnectMaxMs), stopping.signal)
      }
    }
  }

  /** Until the next check is due, or the session ends. */
  async function untilCheck(client: Session['client']): Promise<void> {
    const ended = new AbortController()
    const abort = () => ended.abort()
    if (stopping.signal.aborted) return
    client.once('end', abort)
    stopping.signal.addEventListener('abort', abort, { once: true })
    await pause(checkEveryMs, ended.signal)
    client.removeListener('end', abort)
    stopping.signal.removeEventListener('abort', abort)
  }

  return {
    get state() {
      return state
    },
    start() {
      loop ??= run()
    },
    async stop() {
      stopping.abort()
      await connection.close()
      await loop
    },
  }
}
