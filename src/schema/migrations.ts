import { readFileSync, readdirSync } from 'node:fs'
import { inSchema } from '../database/identifiers.ts'
import { WaybillError } from '../errors.ts'

export interface Migration {
  readonly version: number
  readonly name: string
  /** SQL that brings the schema from `version - 1` to `version`. */
  readonly up: string
  /** SQL that takes it back. */
  readonly down: string
}

export interface SchemaShape {
  /** Default: `waybill`. */
  schema?: string
  /** Number of buckets, 1 to 1024, fixed by the first migration. Default: 64. */
  buckets?: number
}

const folder = new URL('./migrations/', import.meta.url)
const fileName = /^(\d{4})_(\w+)\.up\.sql$/

/**
 * All migrations in order, written for the schema and the number of buckets at hand.
 *
 * @throws CONFIGURATION_INVALID
 */
export function loadMigrations({ schema = 'waybill', buckets = 64 }: SchemaShape = {}): readonly Migration[] {
  if (!Number.isInteger(buckets) || buckets < 1 || buckets > 1024) {
    throw new WaybillError(
      'CONFIGURATION_INVALID',
      `expected buckets to be an integer from 1 to 1024, got ${buckets}`,
    )
  }
  // The schema last: nothing may be replaced inside its name.
  const fit = (file: string) =>
    inSchema(
      readFileSync(new URL(file, folder), 'utf8')
        .replaceAll('64 /* buckets */', String(buckets))
        .replaceAll('$waybill$', () => dollarQuote(schema)),
      schema,
    )
  return readdirSync(folder)
    .map((file) => fileName.exec(file))
    .filter((match) => match !== null)
    .map(([file, version, name]) => ({
      version: Number(version),
      name: name!,
      up: fit(file),
      down: fit(file.replace('.up.sql', '.down.sql')),
    }))
    .sort((a, b) => a.version - b.version)
}

/** Quotes around a function's body that cannot occur in it, whatever the schema is called. */
function dollarQuote(schema: string): string {
  let quote = '$waybill$'
  for (let n = 1; schema.includes(quote); n++) quote = `$waybill${n}$`
  return quote
}

/** The version that this program needs: the newest migration that it carries. */
export function latestVersion(): number {
  return loadMigrations().at(-1)?.version ?? 0
}
