import { inSchema } from '../database/identifiers.ts'
import type { Telemetry } from '../telemetry/events.ts'
import type { Job } from './job.ts'
import { type KeptMessage, keepParams, toKeptMessage } from './keeper.ts'
import { EventParked, outcomesOf } from './outcomes.ts'
import { lockProjection } from './projection-statements.ts'
import type { InboxStatements } from './statements.ts'
import type { Store } from './store.ts'

/** Keeps events that came before their turn, in projections without gaps. */
export interface Parking {
  /** `ready`: the missing revision has come meanwhile, so the event is to be tried at once. */
  park(job: Job, error: unknown): Promise<'parked' | 'ready'>
  /** The parked event whose turn it is after this one was applied. */
  next(job: Job): Promise<KeptMessage | undefined>
  /** Parked events whose turn it is, whoever filled the gap. */
  due(most: number): Promise<readonly KeptMessage[]>
}

const columns = `m.event_id, m.delivery::text, encode(m.body, 'base64') AS body, m.attempts::text`

/** $1 consumer, $2 projection, $3 $4 aggregate, $5 revision. Index consumer_messages_parked. */
const nextParked = `
  SELECT ${columns} FROM "waybill".consumer_messages AS m
  WHERE m.consumer = $1::text AND m.state = 'parked' AND m.projection = $2::text
    AND m.aggregate_type = $3::text AND m.aggregate_id = $4::text AND m.revision = $5::text::bigint
  ORDER BY m.event_id LIMIT 1`

/** Those that the projection has caught up with, and those that came too late and are stale now. */
const dueParked = `
  SELECT ${columns} FROM "waybill".consumer_messages AS m
  JOIN "waybill".projection_revisions AS r
    ON r.projection = m.projection AND r.aggregate_type = m.aggregate_type AND r.aggregate_id = m.aggregate_id
  WHERE m.consumer = $1::text AND m.state = 'parked' AND m.revision <= r.revision + 1
  ORDER BY m.revision, m.event_id LIMIT $2::text::int`

const storedRevision = `
  SELECT revision::text FROM "waybill".projection_revisions
  WHERE projection = $1::text AND aggregate_type = $2::text AND aggregate_id = $3::text`

export interface ParkingOptions<Tx> {
  store: Store<Tx>
  schema: string
  consumer: string
  statements: InboxStatements
  telemetry: Telemetry
}

export function createParking<Tx>(options: ParkingOptions<Tx>): Parking {
  const { store, schema, consumer, statements, telemetry } = options
  const [next, due, stored] = [nextParked, dueParked, storedRevision].map((sql) => inSchema(sql, schema)) as [
    string,
    string,
    string,
  ]
  const never = new AbortController().signal

  async function park(job: Job, error: unknown): Promise<'parked' | 'ready'> {
    if (!(error instanceof EventParked)) throw error
    const { event, delivery, attempts } = job
    const { projection } = error
    const { id: eventId, type: eventType, aggregateType, aggregateId } = event
    const parked = await store.transaction(
      async (tx) => {
        // Whoever applies the missing revision takes the same lock: it is either seen here, or sees this event.
        await store.run(tx, lockProjection, [projection, aggregateType, aggregateId])
        const [row] = await store.run(tx, stored, [projection, aggregateType, aggregateId])
        const newest = row === undefined ? null : BigInt(row['revision'] as string)
        if (newest !== null && newest >= error.expected) return false
        const how = { error: error.message, attempts, state: 'parked' as const, projection }
        await store.run(tx, statements.keep, [consumer, ...keepParams({ ...event, eventId }, delivery, how)])
        return true
      },
      { signal: never, idleLimitMs: 60_000 },
    )
    if (!parked) return 'ready'
    telemetry.emit('consumer.parked', {
      ...{ eventId, eventType, aggregateType, aggregateId, attempt: attempts + 1 },
      ...{ consumer, projection, error: error.message },
    })
    return 'parked'
  }

  return {
    park,
    async next({ event }) {
      for (const { projection, revision } of outcomesOf(event).filled) {
        const following = String(revision + 1n)
        const params = [consumer, projection, event.aggregateType, event.aggregateId, following]
        const [row] = await store.query(next, params)
        if (row !== undefined) return toKeptMessage(row)
      }
      return undefined
    },
    due: async (most) => (await store.query(due, [consumer, String(most)])).map(toKeptMessage),
  }
}
