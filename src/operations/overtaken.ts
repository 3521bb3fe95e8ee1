import type { Connection } from '../database/connection.ts'
import { inSchema } from '../database/identifiers.ts'
import { lastPosition } from './cursor.ts'
import type { DeadLetterKey } from './dead-letter-targets.ts'
import { aggregateHashSql } from '../schema/event-state.ts'
import { windowStatement } from './walk.ts'
import { createWindowSize } from './window.ts'

// Published rows have no index by aggregate: it would cost every writer an entry. So one walk from the first of the
// dead letters to the end of the table serves a whole batch, in windows over outbox_events_position, and it ends as
// soon as every aggregate is known to have moved on. No join: a planner whose statistics are old might compare each
// row with each aggregate, while "= ANY" of a constant array is always a look-up in a hash table.
export const laterStatement = `
  SELECT e.aggregate_type AS "aggregateType", e.aggregate_id AS "aggregateId", max(e.position)::text AS "position"
  FROM "waybill".outbox_events AS e
  WHERE e.position > $1::bigint AND e.position <= $2::bigint AND e.processed_at IS NOT NULL
    AND ${aggregateHashSql} = ANY ($3::bigint[])
  GROUP BY e.aggregate_type, e.aggregate_id`

const windows = { first: 10_000, most: 200_000 }

interface Aggregate {
  readonly hash: string
  /** Position of its last dead letter. */
  last: bigint
  /** Position of its last event found published. */
  published: bigint
}

/**
 * The dead letters without a revision of whose aggregate a later event is already published. One with a revision is
 * judged by the revisions of its scope, in the statement that puts it back. One that holds its aggregate cannot
 * have been overtaken.
 */
export async function findOvertaken(
  db: Connection,
  schema: string,
  letters: readonly DeadLetterKey[],
  isOver: () => boolean,
): Promise<ReadonlySet<string>> {
  const judged = letters.filter(({ revision, holds }) => revision === null && !holds)
  const aggregates = new Map<string, Aggregate>()
  for (const letter of judged) {
    const known = aggregates.get(keyOf(letter))
    const last = BigInt(letter.position)
    if (known !== undefined) known.last = last
    else aggregates.set(keyOf(letter), { hash: letter.aggregateHash, last, published: -1n })
  }
  await findPublished(db, schema, aggregates, judged[0]?.position, isOver)
  const overtaken = judged.filter(
    (letter) => aggregates.get(keyOf(letter))!.published > BigInt(letter.position),
  )
  return new Set(overtaken.map(({ id }) => id))
}

/** Tells the aggregates of their last published event after a position, as far as that matters to them. */
async function findPublished(
  db: Connection,
  schema: string,
  aggregates: ReadonlyMap<string, Aggregate>,
  from: string | undefined,
  isOver: () => boolean,
): Promise<void> {
  const windowSql = inSchema(windowStatement('all', 'oldest'), schema)
  const laterSql = inSchema(laterStatement, schema)
  const window = createWindowSize(windows)
  const open = new Map(aggregates)
  let hashes: string | undefined
  let after = from
  while (after !== undefined && open.size > 0 && !isOver()) {
    const startedAt = performance.now()
    const ends: { rows: { position: string }[] } = await db.query(windowSql, [after, window.rows])
    const end = ends.rows[0]?.position
    hashes ??= `{${[...new Set([...open.values()].map(({ hash }) => hash))].join(',')}}`
    const { rows } = await db.query<Later>(laterSql, [after, end ?? lastPosition, hashes])
    for (const row of rows) {
      const aggregate = open.get(keyOf(row))
      if (aggregate === undefined) continue
      aggregate.published = BigInt(row.position)
      if (aggregate.published < aggregate.last) continue
      open.delete(keyOf(row))
      hashes = undefined
    }
    after = end
    window.took(performance.now() - startedAt)
  }
}

interface Later extends Pick<DeadLetterKey, 'aggregateType' | 'aggregateId'> {
  readonly position: string
}

function keyOf({ aggregateType, aggregateId }: Pick<DeadLetterKey, 'aggregateType' | 'aggregateId'>): string {
  return JSON.stringify([aggregateType, aggregateId])
}
