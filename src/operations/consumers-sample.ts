import type { Connection } from '../database/connection.ts'
import { inSchema } from '../database/identifiers.ts'
import type { ConsumerSample } from '../telemetry/consumer-sample-metrics.ts'
import {
  consumersStatement,
  deadOfConsumerStatement,
  frontierStatement,
  lagStatement,
  parkedOfConsumerStatement,
  resultsOfConsumerStatement,
} from './consumer-statements.ts'
import { lastPosition } from './cursor.ts'
import { windowStatement } from './walk.ts'

/** Most consumers that are told of. */
export const mostConsumers = 100
/** Where counting stops, for each number. */
export const consumerCountLimit = 10_000

/** Events of one look for the oldest without a result: about ten milliseconds. */
const windowRows = 2_000
/** Time to look, for one consumer and for all, in milliseconds; what is not found then is unknown. */
const limitMs = { one: 500, all: 2_000 }

/** By consumer, the position up to which it has a result of every event that it handles. */
export type ConsumerMarks = Readonly<Record<string, string>>

export interface ConsumersSample {
  readonly consumers: readonly ConsumerSample[]
  /** For the next sample: where to look on. */
  readonly marks: ConsumerMarks
}

interface Known {
  name: string
  handlers: string[]
}

/**
 * Results, dead letters and lag of each consumer that the database knows. All of it in bounded statements; the lag is
 * looked for from the mark that the sample before has left, without one from where the newest results are.
 */
export async function takeConsumersSample(
  db: Connection,
  schema: string,
  before: ConsumerMarks = {},
): Promise<ConsumersSample> {
  const { rows } = await db.query<Known>(inSchema(consumersStatement, schema), [mostConsumers])
  const deadline = performance.now() + limitMs.all
  const consumers: ConsumerSample[] = []
  const marks: Record<string, string> = {}
  for (const known of rows) {
    const { name } = known
    const { lagSeconds, mark } = await findLag(db, schema, known, before[name], deadline)
    if (mark !== null) marks[name] = mark
    consumers.push({ name, ...(await countResults(db, schema, name)), lagSeconds })
  }
  return { consumers, marks }
}

async function countResults(
  db: Connection,
  schema: string,
  consumer: string,
): Promise<Omit<ConsumerSample, 'name' | 'lagSeconds'>> {
  const ask = async <Row>(sql: string) =>
    (await db.query<Row>(inSchema(sql, schema), [consumer, consumerCountLimit])).rows[0]!
  return {
    results: await ask(resultsOfConsumerStatement),
    deadLetters: (await ask<{ count: number }>(deadOfConsumerStatement)).count,
    parked: (await ask<{ count: number }>(parkedOfConsumerStatement)).count,
  }
}

interface Window {
  last: string | null
  lagSeconds: number | null
  firstOpen: string | null
}

/** The mark is null as long as no event of this outbox was found among the results: others may be read from elsewhere. */
async function findLag(
  db: Connection,
  schema: string,
  { name, handlers }: Known,
  mark: string | undefined,
  deadline: number,
): Promise<{ lagSeconds: number | null; mark: string | null }> {
  const unknown = { lagSeconds: null, mark: mark ?? null }
  // What it takes whatever its type may go elsewhere, or be left out by `decode`.
  if (handlers.length === 0 || handlers.includes('*')) return unknown
  let after: string | null = mark ?? (await frontier(db, schema, name))
  if (after === null) return unknown
  let settled = after
  let passed = true
  const until = Math.min(deadline, performance.now() + limitMs.one)
  while (performance.now() < until) {
    const end = await windowEnd(db, schema, after)
    const values: unknown[] = [after, end ?? lastPosition, name, handlers]
    const window = await db.query<Window>(inSchema(lagStatement, schema), values)
    const { last, lagSeconds, firstOpen }: Window = window.rows[0]!
    if (passed) settled = firstOpen === null ? (last ?? settled) : String(BigInt(firstOpen) - 1n)
    passed &&= firstOpen === null
    if (lagSeconds !== null || end === null) return { lagSeconds: lagSeconds ?? 0, mark: settled }
    after = end
  }
  return { lagSeconds: null, mark: settled }
}

/** Null when fewer events are left than a window has. */
async function windowEnd(db: Connection, schema: string, after: string): Promise<string | null> {
  const { rows } = await db.query<{ position: string }>(
    inSchema(`SELECT w.position::text FROM (${windowStatement('all', 'oldest')}) AS w`, schema),
    [after, windowRows],
  )
  return rows[0]?.position ?? null
}

async function frontier(db: Connection, schema: string, consumer: string): Promise<string | null> {
  const { rows } = await db.query<{ position: string | null }>(inSchema(frontierStatement, schema), [
    consumer,
  ])
  return rows[0]!.position
}
