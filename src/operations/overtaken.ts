import type { Connection } from '../database/connection.ts'
import { inSchema } from '../database/identifiers.ts'
import { lastPosition } from './cursor.ts'
import type { DeadLetterKey } from './dead-letter-targets.ts'
import { windowStatement } from './walk.ts'

// Published rows have no index by aggregate: it would cost every writer an entry. So one walk from the first of the
// dead letters to the end of the table serves a whole batch, in windows over outbox_events_position, and it ends as
// soon as every aggregate is known to have moved on.
const laterStatement = `
  SELECT a.number::int AS "number", max(e.position)::text AS "position"
  FROM "waybill".outbox_events AS e
  JOIN unnest($3::text[], $4::text[]) WITH ORDINALITY AS a(type, id, number)
    ON e.aggregate_type = a.type AND e.aggregate_id = a.id
  WHERE e.position > $1::bigint AND e.position <= $2::bigint AND e.processed_at IS NOT NULL
  GROUP BY a.number`

const window = 50_000

interface Aggregate {
  readonly type: string
  readonly id: string
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
    else
      aggregates.set(keyOf(letter), {
        type: letter.aggregateType,
        id: letter.aggregateId,
        last,
        published: -1n,
      })
  }
  const windowSql = inSchema(windowStatement('all', 'oldest'), schema)
  const laterSql = inSchema(laterStatement, schema)
  let after: string | undefined = judged[0]?.position
  let open = [...aggregates.values()]
  while (after !== undefined && open.length > 0 && !isOver()) {
    const end: string | undefined = (await db.query<{ position: string }>(windowSql, [after, window])).rows[0]
      ?.position
    const { rows } = await db.query<{ number: number; position: string }>(laterSql, [
      after,
      end ?? lastPosition,
      open.map(({ type }) => type),
      open.map(({ id }) => id),
    ])
    for (const { number, position } of rows) open[number - 1]!.published = BigInt(position)
    open = open.filter(({ last, published }) => published < last)
    after = end
  }
  const overtaken = judged.filter(
    (letter) => aggregates.get(keyOf(letter))!.published > BigInt(letter.position),
  )
  return new Set(overtaken.map(({ id }) => id))
}

function keyOf({ aggregateType, aggregateId }: DeadLetterKey): string {
  return JSON.stringify([aggregateType, aggregateId])
}
