import pg from 'pg'
import { describeUrl } from '../database/connection.ts'
import { databaseError } from '../database/failures.ts'
import { checkSchemaName, inSchema } from '../database/identifiers.ts'
import { ownerPrivileges } from '../database/privileges.ts'
import { WaybillError } from '../errors.ts'
import type { Queryable } from '../types.ts'
import { type Migration, type SchemaShape, latestVersion, loadMigrations } from './migrations.ts'

export interface MigrateOptions extends SchemaShape {
  databaseUrl: string
  /** The version to reach, 0 for none. Default: the newest. Lower than the present one: goes back. */
  to?: number
  /** Says what would be done and does nothing. Default: false. */
  dryRun?: boolean
  /** `poll`: without the trigger that wakes sleeping relays. Default: as it is; `auto` when the schema is made. */
  wakeup?: 'auto' | 'poll'
}

export interface MigrateReport {
  from: number
  to: number
  steps: readonly { version: number; name: string; direction: 'up' | 'down' }[]
  /** False on a dry run, or when there was nothing to do. */
  applied: boolean
}

/**
 * Brings the schema to a version in one transaction: all of it or nothing. Safe when many start at once: they
 * take a lock that ends with the transaction, and the later ones find nothing left to do.
 *
 * @throws CONFIGURATION_INVALID, DATABASE_UNREACHABLE, PERMISSION_DENIED, SCHEMA_NEWER
 */
export async function migrate(options: MigrateOptions): Promise<MigrateReport> {
  const schema = checkSchemaName(options.schema ?? 'waybill')
  const where = describeUrl(options.databaseUrl)
  const client = new pg.Client({ connectionString: options.databaseUrl, connectionTimeoutMillis: 10_000 })
  client.on('error', () => undefined)
  try {
    await client.connect()
    // Whatever the role's defaults are: after the wait for the lock, the work of the others must be visible.
    await client.query('BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE')
    await client.query('SELECT pg_advisory_xact_lock(hashtextextended($1, 0))', [`waybill migrate ${schema}`])
    const report = await migrateInTransaction(client, { ...options, schema })
    await client.query(report.applied ? 'COMMIT' : 'ROLLBACK')
    return report
  } catch (error) {
    throw databaseError(error, {
      where,
      schema,
      role: client.user ?? 'this role',
      privileges: ownerPrivileges,
    })
  } finally {
    await client.end().catch(() => undefined)
  }
}

async function migrateInTransaction(
  client: pg.Client,
  options: MigrateOptions & { schema: string },
): Promise<MigrateReport> {
  const { schema, dryRun = false, wakeup } = options
  const from = (await readVersion(client, schema)) ?? 0
  const newest = latestVersion()
  const to = options.to ?? newest
  if (!Number.isInteger(to) || to < 0 || to > newest) {
    throw new WaybillError(
      'CONFIGURATION_INVALID',
      `expected --to to be a version from 0 to ${newest}, got ${to}`,
    )
  }
  if (from > newest) throw schemaNewer(schema, from, newest)
  const steps = planSteps(loadMigrations(options), from, to)
  if (from > 0 && options.buckets !== undefined) await checkBuckets(client, schema, options.buckets)
  let applied = false
  if (!dryRun) {
    for (const step of steps)
      await client.query(step.direction === 'up' ? step.migration.up : step.migration.down)
    if (steps.length > 0) await writeVersion(client, schema, to)
    const switched = to > 0 && wakeup !== undefined && (await switchWakeup(client, schema, wakeup))
    applied = steps.length > 0 || switched
  }
  return {
    from,
    to,
    steps: steps.map(({ direction, migration: { version, name } }) => ({ version, name, direction })),
    applied,
  }
}

/** The number of buckets decides in which of them each row is: it is fixed when the schema is made. */
async function checkBuckets(client: pg.Client, schema: string, wanted: number): Promise<void> {
  const { rows } = await client.query<{ n: number }>(
    inSchema('SELECT count(*)::int AS n FROM "waybill".outbox_buckets', schema),
  )
  const present = rows[0]?.n
  if (present === wanted) return
  throw new WaybillError(
    'CONFIGURATION_INVALID',
    `the schema ${JSON.stringify(schema)} was made with ${present} buckets, which cannot be changed to ${wanted}: set buckets to ${present}`,
  )
}

/** Touches the table only when the trigger is not yet as asked: ALTER TABLE makes every writer wait. */
async function switchWakeup(client: pg.Client, schema: string, wakeup: 'auto' | 'poll'): Promise<boolean> {
  const { rows } = await client.query<{ tgenabled: string }>(
    "SELECT tgenabled FROM pg_trigger WHERE tgrelid = $1::regclass AND tgname = 'outbox_wakeup'",
    [inSchema('"waybill".outbox_events', schema)],
  )
  const enabled = rows[0] !== undefined && rows[0].tgenabled !== 'D'
  if (enabled === (wakeup === 'auto')) return false
  const verb = wakeup === 'auto' ? 'ENABLE' : 'DISABLE'
  await client.query(inSchema(`ALTER TABLE "waybill".outbox_events ${verb} TRIGGER outbox_wakeup`, schema))
  return true
}

function planSteps(migrations: readonly Migration[], from: number, to: number) {
  return to >= from
    ? migrations
        .filter(({ version }) => version > from && version <= to)
        .map((migration) => ({ direction: 'up' as const, migration }))
    : migrations
        .filter(({ version }) => version <= from && version > to)
        .reverse()
        .map((migration) => ({ direction: 'down' as const, migration }))
}

/** The SQL that `migrate` would run on an empty database, for the user's own migration tool. */
export function printMigrations(options: SchemaShape & { wakeup?: 'auto' | 'poll' } = {}): string {
  const schema = checkSchemaName(options.schema ?? 'waybill')
  return [
    ...loadMigrations(options).map(({ up }) => up.trimEnd()),
    inSchema(
      `${versionTable}\nINSERT INTO "waybill".schema_version (version) VALUES (${latestVersion()});`,
      schema,
    ),
    ...(options.wakeup === 'poll'
      ? [inSchema('ALTER TABLE "waybill".outbox_events DISABLE TRIGGER outbox_wakeup;', schema)]
      : []),
    '',
  ].join('\n\n')
}

const versionTable = `CREATE TABLE IF NOT EXISTS "waybill".schema_version (
  singleton boolean PRIMARY KEY DEFAULT true CHECK (singleton),
  version integer NOT NULL,
  changed_at timestamptz NOT NULL DEFAULT clock_timestamp()
);`

async function writeVersion(client: pg.Client, schema: string, version: number): Promise<void> {
  await client.query(inSchema(versionTable, schema))
  await client.query(
    inSchema(
      `INSERT INTO "waybill".schema_version AS v (version) VALUES ($1)
       ON CONFLICT (singleton) DO UPDATE SET version = excluded.version, changed_at = clock_timestamp()`,
      schema,
    ),
    [version],
  )
}

/** The version of a schema, or undefined when it was never migrated. */
export async function readVersion(client: Queryable, schema: string): Promise<number | undefined> {
  const { rows } = await client.query('SELECT to_regclass($1)::text AS found', [
    inSchema('"waybill".schema_version', schema),
  ])
  if (rows[0]?.['found'] == null) return undefined
  const version = await client.query(inSchema('SELECT version FROM "waybill".schema_version', schema))
  return version.rows[0]?.['version'] as number | undefined
}

/**
 * Refuses to work on a schema that is missing, older or newer than this program.
 *
 * @throws SCHEMA_MISSING, SCHEMA_OUTDATED, SCHEMA_NEWER
 */
export async function checkSchemaVersion(client: Queryable, schema: string): Promise<void> {
  const version = (await readVersion(client, schema)) ?? 0
  const newest = latestVersion()
  if (version === newest) return
  if (version > newest) throw schemaNewer(schema, version, newest)
  throw version === 0
    ? new WaybillError(
        'SCHEMA_MISSING',
        `the schema ${JSON.stringify(schema)} is not migrated, run "waybill migrate"`,
      )
    : new WaybillError(
        'SCHEMA_OUTDATED',
        `the schema ${JSON.stringify(schema)} is at version ${version}, this program needs ${newest}: run "waybill migrate"`,
      )
}

function schemaNewer(schema: string, version: number, newest: number): WaybillError {
  return new WaybillError(
    'SCHEMA_NEWER',
    `the schema ${JSON.stringify(schema)} is at version ${version}, newer than the ${newest} this program knows: upgrade waybill`,
  )
}
