import type { Connection } from '../database/connection.ts'
import { sqlState } from '../database/failures.ts'
import { inSchema } from '../database/identifiers.ts'
import { WaybillError } from '../errors.ts'
import type { RebuildRevision } from '../publishing/rebuild-message.ts'
import { show } from '../wording.ts'
import type { Database } from './collect.ts'
import { revisionOf, typeOfId } from './facts/source.ts'
import type { Publication } from './publication.ts'

/** One aggregate of a source. */
export interface SourceAggregate {
  readonly id: string
  /** Those that were handed over, in rising order. Null: together they are too large for one message. */
  readonly revisions: readonly RebuildRevision[] | null
}

interface Row {
  id: string
  revision: string
  body: string | null
  isOut: boolean
}

/** The whole history of one aggregate is one message. */
const mostBytes = 64 * 1024 * 1024

/**
 * The aggregates of a source with all that it has of them, page by page in the order of the ids; only one of them when
 * an id is given. Each statement reads at most `batch` rows, by the index of the id.
 *
 * @throws CONFIGURATION_INVALID, PERMISSION_DENIED, DATABASE_UNREACHABLE
 */
export async function* readSource(
  { db, schema }: Database,
  publication: Publication,
  { batch, id = null }: { batch: number; id?: string | null },
): AsyncGenerator<readonly SourceAggregate[]> {
  const isHistory = publication.source.keeps === 'history'
  const statement = await told(publication, async () =>
    inSchema(pageStatement(publication, await typeOfId(db, publication)), schema),
  )
  let open: Collected | undefined
  let last: Row | undefined
  do {
    const values = [
      last?.id ?? null,
      batch,
      id,
      publication.name,
      ...(isHistory ? [last?.revision ?? null] : []),
    ]
    const { rows } = await told(publication, () => db.query<Row>(statement, values))
    last = rows.length < batch ? undefined : rows.at(-1)
    const page: Collected[] = open === undefined ? [] : [open]
    for (const row of rows) {
      if (page.at(-1)?.id !== row.id) page.push({ id: row.id, revisions: [], bytes: 0 })
      if (row.isOut) collect(page.at(-1)!, row, publication)
    }
    // The next page may have more of the last one.
    open = isHistory && last !== undefined ? page.pop() : undefined
    yield page.map(({ id, revisions, bytes }) => ({ id, revisions: bytes > mostBytes ? null : revisions }))
  } while (last !== undefined)
}

interface Collected {
  readonly id: string
  revisions: RebuildRevision[]
  bytes: number
}

function collect(into: Collected, { id, revision, body }: Row, publication: Publication): void {
  if (body === null) {
    throw new WaybillError(
      'CONFIGURATION_INVALID',
      `intent.payload of the publication ${show(publication.name)} gives no payload (null) for revision ${revision} of ${show(id)}: correct the expression`,
    )
  }
  into.bytes += Buffer.byteLength(body)
  if (into.bytes > mostBytes) into.revisions = []
  else if (into.revisions.at(-1)?.revision !== revision) into.revisions.push({ revision, body })
}

/**
 * $1 the last id of the page before, $2 how many rows, $3 only this id, $4 aggregate type, $5 the last revision where
 * all are kept. The payload is the operator's own SQL, from the configuration. What was not handed over is not to be
 * shown: nobody has decided so, or it comes live. Without a row retention has removed it, and the head knows it.
 * Indexes: that of the id, outbox_events_revision, the primary key of the heads.
 */
function pageStatement(publication: Publication, type: string): string {
  const { from, id, keeps } = publication.source
  const revision = revisionOf(publication)
  const beyond = `s.${id} > $1::text::${type}`
  const start =
    keeps === 'history'
      ? `(${beyond} OR (s.${id} = $1::text::${type} AND ${revision} > $5::text::numeric))`
      : beyond
  return `
  SELECT s.${id}::text AS "id", ${revision}::bigint::text AS "revision",
         CASE WHEN waybill_out.waybill_is_out THEN (${publication.intent?.payload})::jsonb::text END AS "body",
         waybill_out.waybill_is_out AS "isOut"
  FROM ${from} AS s
  CROSS JOIN LATERAL (
    SELECT coalesce(
      (SELECT e.processed_at IS NOT NULL FROM "waybill".outbox_events AS e
       WHERE e.aggregate_type = $4::text AND e.aggregate_id = s.${id}::text AND e.revision = ${revision}::bigint
         AND e.intent_scope = ''),
      (SELECT h.relayed_revision >= ${revision}::bigint FROM "waybill".publication_heads AS h
       WHERE h.aggregate_type = $4::text AND h.aggregate_id = s.${id}::text AND h.intent_scope = ''),
      false) AS waybill_is_out
    OFFSET 0
  ) AS waybill_out
  WHERE ($1::text IS NULL OR ${start}) AND ($3::text IS NULL OR s.${id} = $3::text::${type})
    AND s.${publication.source.revision} IS NOT NULL
  ORDER BY s.${id}${keeps === 'history' ? `, ${revision}` : ''} LIMIT $2::int`
}

/** The table is not ours, so what PostgreSQL says of it is told with where it was configured. */
async function told<T>(publication: Publication, read: () => Promise<T>): Promise<T> {
  try {
    return await read()
  } catch (error) {
    const { cause = error } = error as { cause?: unknown }
    const state = sqlState(cause)
    // A privilege that is lacking has its sentence already.
    if (state === undefined || state === '42501' || !/^(22|42)/.test(state)) throw error
    throw new WaybillError(
      'CONFIGURATION_INVALID',
      `the source ${publication.source.table} of the publication ${show(publication.name)} cannot be read (${(cause as Error).message}): correct "source" or "intent.payload" of its configuration`,
      { cause },
    )
  }
}

/**
 * How many of these ids the source does not have; null when that cannot be told, since one of them is no value of its
 * column.
 */
export async function countMissing(
  db: Connection,
  publication: Publication,
  ids: readonly string[],
): Promise<number | null> {
  const { from, id } = publication.source
  const type = await typeOfId(db, publication)
  try {
    const { rows } = await db.query<{ count: number }>(
      `SELECT count(DISTINCT s.${id})::int AS count FROM ${from} AS s WHERE s.${id} = ANY ($1::text[]::${type}[])`,
      [ids],
    )
    return ids.length - rows[0]!.count
  } catch (error) {
    if (sqlState(error)?.startsWith('22') !== true) throw error
    return null
  }
}
