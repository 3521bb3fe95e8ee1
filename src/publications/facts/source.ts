import type { Connection } from '../../database/connection.ts'
import { sqlState } from '../../database/failures.ts'
import { WaybillError } from '../../errors.ts'
import type { Publication } from '../publication.ts'

/** What the user's own table says of an aggregate. */
export interface SourceFact {
  /** True when it holds the revision that was asked for. */
  readonly holdsRevision: boolean
  /** Its newest revision, decimal text; null: it has no row of this aggregate. */
  readonly newestRevision: string | null
}

/** The canonical revision. `revision` null: only the newest is wanted. */
export async function findSource(
  db: Connection,
  publication: Publication,
  id: string,
  revision: bigint | null,
): Promise<SourceFact> {
  const { from, id: idColumn } = publication.source
  const number = revisionOf(publication)
  const type = await typeOfId(db, publication)
  try {
    const { rows } = await db.query<{ newest: string | null; holds: boolean }>(
      `SELECT max(${number})::text AS newest, coalesce(bool_or(${number} = $2::text::numeric), false) AS holds
       FROM ${from} AS s WHERE s.${idColumn} = $1::text::${type}`,
      [id, revision === null ? null : String(revision)],
    )
    return { holdsRevision: rows[0]!.holds, newestRevision: rows[0]!.newest }
  } catch (error) {
    // The id is no value of the column's type: no row can have it.
    if (sqlState(error) === '22P02' && !(await isReadable(db, publication))) throw error
    if (sqlState(error) === '22P02') return { holdsRevision: false, newestRevision: null }
    throw error
  }
}

/** The revision of a source row as a whole number, whatever the column's type; a text that is none fails the look. */
export function revisionOf({ source }: Publication): string {
  return `s.${source.revision}::text::numeric(38, 0)`
}

/** The type of the column with the id, so that its index serves; works for views too. */
export function typeOfId(db: Connection, { source }: Publication): Promise<string> {
  return typeOfColumn(db, { from: source.from, column: source.id, table: source.table, option: 'source.id' })
}

/** @throws CONFIGURATION_INVALID when there is no such column */
export async function typeOfColumn(
  db: Connection,
  { from, column, table, option }: { from: string; column: string; table: string; option: string },
): Promise<string> {
  const { rows } = await db.query<{ type: string }>(
    `SELECT pg_catalog.format_type(a.atttypid, NULL) AS type FROM pg_catalog.pg_attribute AS a
     WHERE a.attrelid = $1::text::regclass AND a.attname = $2::text AND a.attnum > 0 AND NOT a.attisdropped`,
    [from, unquoted(column)],
  )
  const type = rows[0]?.type
  if (type !== undefined) return type
  throw new WaybillError(
    'CONFIGURATION_INVALID',
    `the table ${table} has no column ${column}: correct ${option} of the publication`,
  )
}

/** False when the column with the revision cannot be read as a number, whichever row is looked at. */
async function isReadable(db: Connection, publication: Publication): Promise<boolean> {
  try {
    await db.query(`SELECT ${revisionOf(publication)} FROM ${publication.source.from} AS s LIMIT 1`)
    return true
  } catch {
    return false
  }
}

function unquoted(identifier: string): string {
  return identifier.slice(1, -1).replaceAll('""', '"')
}
