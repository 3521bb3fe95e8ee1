import type { BenchDatabase } from './server.ts'

export interface ManyOptions {
  rows: number
  aggregates: number
  /** Default: `order`. */
  aggregateType?: string
  /** Name of an aggregate, an SQL expression of `i`. Default: so many aggregates take turns. */
  aggregateId?: string
  /** More columns and their values, SQL expressions. */
  more?: Record<string, string>
  /** Characters of filling in the payload. Default: 240, which makes about 300 bytes. */
  filling?: number
}

const rowsPerStatement = 100_000

/** Writes many events fast, when it does not matter how they were written. The commits do not wait for the disk. */
export async function insertMany(database: BenchDatabase, options: ManyOptions): Promise<void> {
  const { rows, aggregates, aggregateType = 'order', more = {}, filling = 240 } = options
  const { aggregateId = `'o-' || (i::bigint * 7919) % ${aggregates}` } = options
  const columns = Object.keys(more).map((column) => `, ${column}`)
  const values = Object.values(more).map((value) => `, ${value}`)
  await database.query('SET synchronous_commit = off')
  for (let done = 0; done < rows; done += rowsPerStatement) {
    await database.query(
      `INSERT INTO waybill.outbox_events (aggregate_type, aggregate_id, event_type, payload${columns.join('')})
       SELECT $1, ${aggregateId}, 'order.created',
              jsonb_build_object('number', i, 'note', repeat('x', $4))${values.join('')}
       FROM generate_series($2::int, $3::int) AS i`,
      [aggregateType, done + 1, Math.min(rows, done + rowsPerStatement), filling],
    )
  }
  await database.query('RESET synchronous_commit')
}
