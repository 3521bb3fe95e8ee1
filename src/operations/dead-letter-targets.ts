import type { Connection } from '../database/connection.ts'
import { inSchema } from '../database/identifiers.ts'
import { type DeadLetterFilter, checkEventFilter, isSelective } from './event-filter.ts'
import { aggregateHashSql, deadSql } from '../schema/event-state.ts'
import { checkEventId, usageInvalid } from '../input.ts'
import { walk } from './walk.ts'

/** Which dead letters to act on: exactly one of the three. */
export interface DeadLetterTarget {
  /** Event ids; the order does not matter, repeated ones count once. */
  ids?: readonly string[]
  /** All that match; an empty filter is refused, say `all` instead. */
  filter?: DeadLetterFilter
  /** Every dead letter. */
  all?: boolean
}

/** What an action needs to know about a dead letter before it acts. */
export interface DeadLetterKey {
  readonly id: string
  readonly position: string
  readonly aggregateType: string
  readonly aggregateId: string
  readonly revision: string | null
  readonly holds: boolean
  /** Hash of the pair: what many of them are looked for by. */
  readonly aggregateHash: string
}

export interface TargetBatch {
  /** In position order, so that what goes back goes back in order. */
  readonly letters: readonly DeadLetterKey[]
  readonly notFound: readonly string[]
  readonly notDead: readonly string[]
}

const keyColumns = `e.id::text AS "id", e.position::text AS "position", e.aggregate_type AS "aggregateType",
    e.aggregate_id AS "aggregateId", e.revision::text AS "revision", e.holds AS "holds",
    ${aggregateHashSql}::text AS "aggregateHash"`

/** Looked up by one statement. */
const lookUpSize = 1_000

/**
 * Known at once in memory, some 20 MB, and checked together for having been overtaken: that may take a walk through
 * the whole table, so it should not be repeated often.
 */
const batchSize = 50_000

/** @throws USAGE_INVALID */
export function checkTarget(target: DeadLetterTarget): DeadLetterTarget {
  const { ids, filter, all = false } = target
  const given = [ids !== undefined, filter !== undefined, all].filter(Boolean).length
  if (given !== 1)
    throw usageInvalid('say which dead letters: by id, by a filter, or all of them, one of the three')
  if (ids !== undefined && ids.length === 0) throw usageInvalid('expected at least one event id')
  if (filter !== undefined && !isSelective(checkEventFilter(filter))) {
    throw usageInvalid('the filter is empty: ask for all dead letters if that is what you want')
  }
  return ids === undefined ? target : { ids: [...new Set(ids.map(checkEventId))] }
}

/** The dead letters of a checked target, batch by batch, each at most once. */
export async function* targetBatches(
  db: Connection,
  schema: string,
  target: DeadLetterTarget,
  isOver: () => boolean,
): AsyncGenerator<TargetBatch> {
  if (target.ids === undefined) yield* batchesByFilter(db, schema, target.filter ?? {}, isOver)
  else yield* batchesById(db, schema, target.ids)
}

async function* batchesByFilter(
  db: Connection,
  schema: string,
  filter: DeadLetterFilter,
  isOver: () => boolean,
): AsyncGenerator<TargetBatch> {
  const conditions = { ...checkEventFilter(filter), states: ['dead' as const] }
  let letters: DeadLetterKey[] = []
  let after: string | null = '-1'
  while (after !== null && !isOver()) {
    const found: { rows: readonly DeadLetterKey[]; upTo: string | null } = await walk<DeadLetterKey>({
      ...{ db, schema, conditions, after, isOver },
      source: 'dead',
      order: 'oldest',
      columns: keyColumns,
      need: lookUpSize,
    })
    letters.push(...found.rows)
    after = found.upTo
    if (letters.length < batchSize && after !== null) continue
    if (letters.length > 0) yield { letters, notFound: [], notDead: [] }
    letters = []
  }
}

async function* batchesById(
  db: Connection,
  schema: string,
  ids: readonly string[],
): AsyncGenerator<TargetBatch> {
  for (let start = 0; start < ids.length; start += batchSize) {
    const asked = ids.slice(start, start + batchSize)
    const rows = await lookUp(db, schema, asked)
    const found = new Set(rows.map(({ id }) => id))
    yield {
      letters: rows.filter(({ dead }) => dead),
      notFound: asked.filter((id) => !found.has(id)),
      notDead: rows.filter(({ dead }) => !dead).map(({ id }) => id),
    }
  }
}

type LookedUp = DeadLetterKey & { readonly dead: boolean }

/** In position order. Primary key. */
async function lookUp(db: Connection, schema: string, ids: readonly string[]): Promise<LookedUp[]> {
  const sql = inSchema(
    `SELECT ${keyColumns}, (${deadSql}) AS "dead" FROM "waybill".outbox_events AS e
     WHERE e.id = ANY ($1::text[]::uuid[])`,
    schema,
  )
  const found: LookedUp[] = []
  for (let start = 0; start < ids.length; start += lookUpSize) {
    found.push(...(await db.query<LookedUp>(sql, [ids.slice(start, start + lookUpSize)])).rows)
  }
  return found.sort((a, b) => (BigInt(a.position) < BigInt(b.position) ? -1 : 1))
}
