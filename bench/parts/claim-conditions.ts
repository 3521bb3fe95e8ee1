import type { RelayJob } from '../child/job.ts'
import { insertMany } from '../many.ts'
import { thousands } from '../part.ts'
import type { Scale } from '../scale.ts'
import type { BenchDatabase } from '../server.ts'

/** Something that lies around in the events table and must not make a relay's look for work slower. */
export interface ClaimCondition {
  key: string
  title: (scale: Scale['claim']) => string
  /** Writes it. Whatever connections it opens are closed with the database. */
  prepare: (database: BenchDatabase, scale: Scale['claim']) => Promise<void>
  relay?: Partial<RelayJob>
}

const slowAggregates = 1000
const slowBucket = 7

async function vacuum(database: BenchDatabase): Promise<void> {
  await database.query('VACUUM ANALYZE waybill.outbox_events')
}

export const claimConditions: readonly ClaimCondition[] = [
  {
    key: 'stuck_aggregate',
    title: ({ behindStuck }) => `${thousands(behindStuck)} rows behind an aggregate that is refused`,
    relay: { refuse: 'stuck' },
    async prepare(database, { behindStuck }) {
      await insertMany(database, {
        rows: behindStuck,
        aggregates: 1,
        aggregateType: 'stuck',
        aggregateId: `'stuck'`,
      })
      await vacuum(database)
    },
  },
  {
    key: 'old_snapshot',
    title: ({ underSnapshot }) => `${thousands(underSnapshot)} processed under an old read-only snapshot`,
    async prepare(database, { underSnapshot }) {
      const reader = await database.connect()
      await reader.query('BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY')
      await reader.query('SELECT count(*) FROM waybill.outbox_events')
      await insertMany(database, { rows: underSnapshot, aggregates: 5000 })
      await database.query('UPDATE waybill.outbox_events SET processed_at = now()')
      await vacuum(database)
    },
  },
  {
    key: 'processed_kept',
    title: ({ kept }) => `${thousands(kept)} processed rows kept`,
    async prepare(database, { kept }) {
      await insertMany(database, {
        rows: kept,
        aggregates: 5000,
        filling: 1,
        more: { processed_at: 'now()' },
      })
      await vacuum(database)
    },
  },
  {
    key: 'dead_letters',
    title: ({ dead }) => `${thousands(dead)} dead letters`,
    async prepare(database, { dead }) {
      const more = { dead_at: 'now()', last_attempt_at: 'now()', attempts: '8', last_error: `'refused'` }
      await insertMany(database, { rows: dead, aggregates: 5000, more })
      await vacuum(database)
    },
  },
  {
    key: 'slow_bucket',
    title: ({ slow }) => `${thousands(slow)} rows of one bucket whose destination is slow`,
    relay: { slow: { publisherMs: 500, batchSize: 10 } },
    async prepare(database, { slow }) {
      await database.query(
        `CREATE TABLE slow_aggregates AS
         SELECT row_number() OVER () - 1 AS number, id
         FROM (SELECT 'slow-' || i AS id FROM generate_series(1, 64 * 2 * $1::int) AS i) AS candidates
         WHERE waybill.outbox_bucket('slow', id) = $2 LIMIT $1::int`,
        [slowAggregates, slowBucket],
      )
      await insertMany(database, {
        rows: slow,
        aggregates: slowAggregates,
        aggregateType: 'slow',
        aggregateId: `(SELECT s.id FROM slow_aggregates AS s WHERE s.number = i % ${slowAggregates})`,
      })
      await vacuum(database)
    },
  },
]
