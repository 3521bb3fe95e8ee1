import { readFileSync, readdirSync } from 'node:fs'
import { inSchema } from '../database/identifiers.ts'

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

/** All migrations in order, written for the schema and the number of buckets at hand. */
export function loadMigrations({ schema = 'waybill', buckets = 64 }: SchemaShape = {}): readonly Migration[] {
  const fit = (file: string) =>
    inSchema(readFileSync(new URL(file, folder), 'utf8'), schema).replaceAll('64 /* buckets */', String(buckets))
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

/** The version that this program needs: the newest migration that it carries. */
export function latestVersion(): number {
  return loadMigrations().at(-1)?.version ?? 0
}
