import type { Connection } from '../database/connection.ts'
import { inSchema, quoteIdentifier } from '../database/identifiers.ts'
import { WaybillError } from '../errors.ts'

/** Where pruned events are kept: a table of the user's own, in the same database. */
export interface ArchiveTable {
  /** Default: the schema of the outbox. */
  schema?: string
  table: string
}

export interface Archive {
  /** The quoted name. */
  readonly target: string
  /** The quoted columns, in one order for both tables. */
  readonly columns: string
}

// A column that the archive computes itself is not copied; everything else of an event is worth keeping.
const columnsStatement = `
  SELECT a.attname AS name, format_type(a.atttypid, a.atttypmod) AS type,
         EXISTS (SELECT FROM pg_attribute AS c
                 WHERE c.attrelid = to_regclass($2) AND c.attname = a.attname AND c.attnum > 0
                   AND NOT c.attisdropped AND c.attgenerated = '' AND c.attidentity <> 'a') AS kept
  FROM pg_attribute AS a
  WHERE a.attrelid = $1::text::regclass AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
  ORDER BY a.attnum`

/**
 * Checks that the archive can take every column of an event.
 *
 * @throws CONFIGURATION_INVALID with the statement that makes the table, or adds the column that is missing.
 */
export async function openArchive(db: Connection, schema: string, archive: ArchiveTable): Promise<Archive> {
  const outbox = inSchema('"waybill".outbox_events', schema)
  const target = `${quoteIdentifier(archive.schema ?? schema)}.${quoteIdentifier(archive.table)}`
  const { rows } = await db.query<{ name: string; type: string; kept: boolean }>(columnsStatement, [
    outbox,
    target,
  ])
  const missing = rows.filter(({ kept }) => !kept)
  if (missing.length === rows.length) {
    throw new WaybillError(
      'CONFIGURATION_INVALID',
      `the archive table ${target} does not exist, make it with: CREATE TABLE ${target} (LIKE ${outbox})`,
    )
  }
  const [first] = missing
  if (first !== undefined) {
    throw new WaybillError(
      'CONFIGURATION_INVALID',
      `the archive table ${target} cannot take the column ${first.name}, add it with: ` +
        `ALTER TABLE ${target} ADD COLUMN ${quoteIdentifier(first.name)} ${first.type}`,
    )
  }
  return { target, columns: rows.map(({ name }) => quoteIdentifier(name)).join(', ') }
}
