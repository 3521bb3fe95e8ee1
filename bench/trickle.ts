import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'
import { nowMs } from './child/job.ts'
import { eventPayload } from './transaction.ts'

export interface TrickleOptions {
  client: pg.Client
  seconds: number
  transactionsPerSecond: number
  eventsPerTransaction: number
  /** So many aggregates of this type take turns. */
  aggregateType: string
  aggregates: number
}

/** When the commit of an event was answered, by event id; {@link nowMs}. */
export type Commits = Map<string, number>

/**
 * Writes events little by little, at moments that are spread at random between half and one and a half of the pause that the
 * rate asks for: nothing can fall into step with it.
 */
export async function trickle(options: TrickleOptions): Promise<Commits> {
  const { client, transactionsPerSecond, eventsPerTransaction, aggregateType, aggregates } = options
  const commits: Commits = new Map()
  const pauseMs = 1000 / transactionsPerSecond
  const startedAt = nowMs()
  let due = startedAt
  let next = 0
  while (due < startedAt + options.seconds * 1000) {
    const wait = due - nowMs()
    // A timer is up to a millisecond late; the next moment does not move with it.
    if (wait > 0.5) await sleep(wait)
    const ids = Array.from({ length: eventsPerTransaction }, () => randomUUID())
    const names = ids.map(() => `trickle-${next++ % aggregates}`)
    await client.query({
      name: 'trickle',
      text: `INSERT INTO waybill.outbox_events (id, aggregate_type, aggregate_id, event_type, payload)
             SELECT e.id, $3, e.aggregate, 'order.created', $4::jsonb
             FROM unnest($1::uuid[], $2::text[]) AS e(id, aggregate)`,
      values: [ids, names, aggregateType, eventPayload],
    })
    const answeredAt = nowMs()
    for (const id of ids) commits.set(id, answeredAt)
    due += pauseMs * (0.5 + Math.random())
  }
  return commits
}

/** Milliseconds from the answer to the commit to the first call of the publisher, of the events that arrived. */
export function delays(
  commits: Commits,
  calls: readonly (readonly [id: string, at: number])[],
): { arrived: number[]; missing: number } {
  const first = new Map<string, number>()
  for (const [id, at] of calls) if (!first.has(id)) first.set(id, at)
  const arrived = [...commits].flatMap(([id, committedAt]) => {
    const at = first.get(id)
    return at === undefined ? [] : [at - committedAt]
  })
  return { arrived, missing: commits.size - arrived.length }
}
