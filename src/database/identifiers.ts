import { WaybillError } from '../errors.ts'

/**
 * The one place where an identifier becomes SQL. Doubles every quote, so that any name PostgreSQL allows
 * (`My"Schema`) works.
 */
export function quoteIdentifier(name: string): string {
  return `"${name.replaceAll('"', '""')}"`
}

/**
 * A schema name that PostgreSQL keeps as it is: 1 to 63 bytes of UTF-8 (longer names are cut silently), no
 * U+0000, and not `pg_…`, which PostgreSQL reserves.
 *
 * @throws CONFIGURATION_INVALID
 */
export function checkSchemaName(name: string): string {
  const bytes = Buffer.byteLength(name)
  if (bytes < 1 || bytes > 63 || name.includes('\u0000') || !name.isWellFormed() || name.startsWith('pg_')) {
    throw new WaybillError(
      'CONFIGURATION_INVALID',
      `expected schema to be a PostgreSQL name of 1 to 63 bytes that does not start with "pg_", got ${JSON.stringify(name.slice(0, 80))}`,
    )
  }
  return name
}

/**
 * SQL that is written for the default schema, for the schema at hand: each `"waybill"` is replaced, also at the start
 * of a literal (`'"waybill".outbox_events'::regclass`). So every statement in the sources can be read, and run, as it
 * stands.
 */
export function inSchema(sql: string, schema: string): string {
  if (schema === 'waybill') return sql
  const quoted = quoteIdentifier(schema)
  const inLiteral = quoted.replaceAll("'", "''")
  return sql.replaceAll(/(')?"waybill"/g, (_, quote?: string) =>
    quote === undefined ? quoted : quote + inLiteral,
  )
}
