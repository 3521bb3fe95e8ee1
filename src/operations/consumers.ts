import type { Connection } from '../database/connection.ts'
import { inSchema } from '../database/identifiers.ts'
import { hasCode } from '../errors.ts'
import type { ConsumerSample } from '../telemetry/consumer-sample-metrics.ts'
import { consumersStatement, instancesStatement, resultsStatement } from './consumer-statements.ts'
import { mostConsumers, takeConsumersSample } from './consumers-sample.ts'
import { readLiveSample } from './sample.ts'

/** Most processes that are told of, of all consumers. */
const mostInstances = 1_000
/** A sample older than this is taken anew. */
const staleAfterSeconds = 30

/** A live process of a consumer. */
export interface ConsumerInstance {
  readonly consumer: string
  readonly id: string
  readonly host: string
  readonly processId: number
  readonly version: string
  /** The queue, topic or group that it reads; null where its source has none. */
  readonly subscription: string | null
  readonly startedAt: string
  /** Its last sign of life; one comes every ten seconds. */
  readonly seenAt: string
}

/** A consumer that this database knows. What is not known is null, never 0. */
export interface ConsumerStatus {
  readonly name: string
  /** The event types that it handles, as its newest process says. */
  readonly handlers: readonly string[]
  /** The last sign of life of any of its processes. */
  readonly seenAt: string
  readonly instances: readonly ConsumerInstance[]
  readonly results: ConsumerSample['results'] | null
  readonly deadLetters: number | null
  readonly parked: number | null
  readonly lagSeconds: number | null
}

export interface ConsumersStatus {
  /** Null when this role may not read the tables of consumers. */
  readonly consumers: readonly ConsumerStatus[] | null
}

/**
 * The consumers whose tables are in this database, at most 100: their live processes now, their results and lag from
 * the sample that a relay keeps, or taken anew where none does. A consumer with tables in another database is told by
 * that one.
 */
export async function listConsumers(db: Connection, schema: string): Promise<ConsumersStatus> {
  return { consumers: await nullIfDenied(() => readConsumers(db, schema)) }
}

async function readConsumers(db: Connection, schema: string): Promise<ConsumerStatus[]> {
  const known = await db.query<Pick<ConsumerStatus, 'name' | 'handlers' | 'seenAt'>>(
    inSchema(consumersStatement, schema),
    [mostConsumers],
  )
  if (known.rows.length === 0) return []
  const instances = await db.query<ConsumerInstance>(inSchema(instancesStatement, schema), [mostInstances])
  const stored = await readLiveSample(db, schema)
  const usable = stored?.consumers != null && stored.ageSeconds <= staleAfterSeconds
  const consumers = usable ? stored.consumers : (await takeConsumersSample(db, schema)).consumers
  return known.rows.map((consumer) => ({
    ...consumer,
    instances: instances.rows.filter((instance) => instance.consumer === consumer.name),
    ...(consumers.find(({ name }) => name === consumer.name) ?? unknown),
  }))
}

const unknown = { results: null, deadLetters: null, parked: null, lagSeconds: null }

/** What one consumer made of one event. */
export interface ConsumerResult {
  readonly consumer: string
  /** `failing`: it was tried in vain and is tried again. */
  readonly result: 'applied' | 'stale' | 'rejected' | 'parked' | 'failing'
  readonly attempts: number
  readonly error: string | null
  /** ISO 8601. */
  readonly at: string
}

export interface WithConsumers {
  /** What the consumers of this database made of it; null when this role may not read their tables. */
  readonly consumers: readonly ConsumerResult[] | null
}

/** Events with what each consumer made of them, at most 100 consumers. By primary keys, one by one. */
export async function withConsumerResults<Item extends { readonly id: string }>(
  db: Connection,
  schema: string,
  items: readonly Item[],
): Promise<(Item & WithConsumers)[]> {
  const rows = await nullIfDenied(
    async () =>
      (
        await db.query<ConsumerResult & { eventId: string }>(inSchema(resultsStatement, schema), [
          items.map(({ id }) => id),
          mostConsumers,
        ])
      ).rows,
  )
  const byEvent = new Map<string, ConsumerResult[]>()
  for (const { eventId, ...result } of rows ?? []) {
    const known = byEvent.get(eventId) ?? []
    // A result that is there tells more than a replay that fails.
    if (!known.some(({ consumer }) => consumer === result.consumer)) known.push(result)
    byEvent.set(eventId, known)
  }
  return items.map((item) => ({ ...item, consumers: rows === null ? null : (byEvent.get(item.id) ?? []) }))
}

/** The tables of consumers belong to others: a role without them sees all the rest. */
export async function nullIfDenied<T>(read: () => Promise<T>): Promise<T | null> {
  try {
    return await read()
  } catch (error) {
    if (hasCode(error, 'PERMISSION_DENIED')) return null
    throw error
  }
}
