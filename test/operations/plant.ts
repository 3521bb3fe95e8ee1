import type { TestDatabase } from '../support/postgres.ts'

/** A row as the relay, or an operator, would have left it. Times are SQL expressions. */
export interface Planted {
  aggregate?: readonly [string, string]
  type?: string
  payload?: string
  revision?: number
  scope?: string
  attempts?: number
  lastError?: string
  createdAt?: string
  lastAttemptAt?: string
  processedAt?: string
  deadAt?: string
  discardedAt?: string
  holds?: boolean
  receipt?: string
}

export interface PlantedRow {
  id: string
  position: string
  bucket: number
}

/** Shorthands for the states that a relay leaves behind. */
export const published: Planted = { processedAt: 'now()', receipt: 'test:1' }
export const failing: Planted = { attempts: 1, lastAttemptAt: 'now()', lastError: 'HTTP 500' }
export const dead: Planted = { attempts: 8, lastAttemptAt: 'now()', deadAt: 'now()', lastError: 'HTTP 500' }
export const discarded: Planted = { ...dead, discardedAt: 'now()' }

/** Writes rows in the given order; each gets the next position. */
export async function plant(database: TestDatabase, ...rows: readonly Planted[]): Promise<PlantedRow[]> {
  const planted: PlantedRow[] = []
  for (const row of rows) {
    const [type, id] = row.aggregate ?? ['order', 'o-1']
    const moment = (sql: string | undefined) => sql ?? 'NULL'
    planted.push(
      ...(await database.rows<PlantedRow>(
        `INSERT INTO "waybill".outbox_events
           (aggregate_type, aggregate_id, event_type, payload, revision, intent_scope, attempts, last_error, holds,
            receipt, created_at, last_attempt_at, processed_at, dead_at, discarded_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, ${row.createdAt ?? 'now()'}, ${moment(row.lastAttemptAt)},
                 ${moment(row.processedAt)}, ${moment(row.deadAt)}, ${moment(row.discardedAt)})
         RETURNING id::text, position::text,
           "waybill".outbox_bucket(aggregate_type, aggregate_id)::int AS bucket`,
        [
          type,
          id,
          row.type ?? 'order.created',
          row.payload ?? '{}',
          row.revision ?? null,
          row.scope ?? '',
          row.attempts ?? 0,
          row.lastError ?? null,
          row.holds ?? false,
          row.receipt ?? null,
        ],
      )),
    )
  }
  return planted
}

/** Many published rows of their own aggregates, in one statement. */
export async function plantPublished(
  database: TestDatabase,
  count: number,
  processedAt = 'now()',
): Promise<void> {
  await database.query(
    `INSERT INTO "waybill".outbox_events (aggregate_type, aggregate_id, event_type, payload, created_at, processed_at)
     SELECT 'bulk', 'b-' || n, 'bulk.done', '{}', ${processedAt}, ${processedAt} FROM generate_series(1, ${count}) AS n`,
  )
}
