import type { Connection } from '../../database/connection.ts'
import { sqlState } from '../../database/failures.ts'
import { quoteIdentifier } from '../../database/identifiers.ts'
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
  return typeOfColumn(db, { from: source.from, column: source.id, table: source.table, option: 'source' })
}

/** A column of a table of the user's: `from` and `column` quoted, `option` the part of the publication that names both. */
interface ForeignColumn {
  readonly from: string
  readonly column: string
  readonly table: string
  readonly option: 'source' | 'projections'
}

/**
 * The first look at a table of the user's: what is wrong with it is told in terms of the configuration, and of that
 * table's own schema.
 *
 * @throws CONFIGURATION_INVALID when there is no such table or column, PERMISSION_DENIED
 */
export async function typeOfColumn(
  db: Connection,
  { from, column, table, option }: ForeignColumn,
): Promise<string> {
  const { rows } = await db.query<{ type: string | null; name: string; role: string; readable: boolean }>(
    `SELECT pg_catalog.format_type(a.atttypid, NULL) AS type, pg_catalog.format('%I.%I', n.nspname, c.relname) AS name,
            current_user::text AS role, pg_catalog.has_any_column_privilege(c.oid, 'SELECT') AS readable
     FROM pg_catalog.pg_class AS c
     JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
     LEFT JOIN pg_catalog.pg_attribute AS a
       ON a.attrelid = c.oid AND a.attname = $2::text AND a.attnum > 0 AND NOT a.attisdropped
     WHERE c.oid = pg_catalog.to_regclass($1::text)`,
    [from, unquoted(column)],
  )
  const found = rows[0]
  if (found === undefined) {
    throw new WaybillError(
      'CONFIGURATION_INVALID',
      `there is no table ${table}: correct ${option}.table of the publication`,
    )
  }
  const { type, name, role, readable } = found
  if (type === null) {
    throw new WaybillError(
      'CONFIGURATION_INVALID',
      `the table ${table} has no column ${column}: correct ${option}.id of the publication`,
    )
  }
  if (readable) return type
  throw new WaybillError(
    'PERMISSION_DENIED',
    `role ${JSON.stringify(role)} lacks SELECT on the table ${name}: its owner may run ` +
      `GRANT SELECT ON ${name} TO ${quoteIdentifier(role)}`,
    { details: { role, kind: 'table', name, privilege: 'SELECT' } },
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
