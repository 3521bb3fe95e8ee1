import { migrate } from '../../src/schema/migrator.ts'
import { articleTable } from '../article-relay.ts'
import type { Contestant } from '../child/job.ts'
import {
  type FillTarget,
  articleTarget,
  fill,
  graphileTarget,
  randomIdsTarget,
  waybillTarget,
} from '../fill.ts'
import { loadGraphile } from '../graphile-worker.ts'
import type { Scale } from '../scale.ts'
import type { BenchDatabase, BenchServer } from '../server.ts'

/** A table with rows of one kind. */
export type Kind = Contestant['kind'] | 'waybill_random_ids'

export const targets: Record<Kind, FillTarget> = {
  article: articleTarget,
  waybill: waybillTarget,
  waybill_random_ids: randomIdsTarget,
  graphile: graphileTarget,
}

/**
 * Databases filled once: every drain gets a copy of its files, so that each contestant begins with the very same pages in
 * every round, whatever the rounds before left behind.
 */
export async function makeTemplates(
  server: BenchServer,
  kinds: ReadonlySet<Kind>,
  { rows, aggregates, warmUpRows }: Scale['drain'],
): Promise<void> {
  for (const kind of kinds) {
    await makeTemplate(server, kind, templateOf(kind), { rows, aggregates })
    const fewer = Math.ceil((aggregates * warmUpRows) / rows)
    await makeTemplate(server, kind, warmUpOf(kind), { rows: warmUpRows, aggregates: fewer })
  }
}

export function templateOf(kind: Kind): string {
  return `${kind}_rows`
}

export function warmUpOf(kind: Kind): string {
  return `${kind}_warm_up`
}

/** A database with the tables of one kind and some rows, closed. */
export async function makeTemplate(
  server: BenchServer,
  kind: Kind,
  name: string,
  size: { rows: number; aggregates: number },
): Promise<void> {
  const database = await server.createDatabase(name)
  await makeSchema(database, kind)
  await fill(database, targets[kind], size)
  await database.query(`VACUUM ANALYZE ${targets[kind].table}`)
  await database.close()
}

async function makeSchema(database: BenchDatabase, kind: Kind): Promise<void> {
  if (kind === 'article') await database.query(articleTable)
  if (kind === 'waybill' || kind === 'waybill_random_ids') await migrate({ databaseUrl: database.url })
  if (kind !== 'graphile') return
  const graphile = loadGraphile()
  const logger = new graphile.Logger(() => () => undefined)
  await graphile.runMigrations({ preset: { worker: { connectionString: database.url, logger } } })
  await database.query(`INSERT INTO graphile_worker._private_tasks (identifier) VALUES ('event')`)
}
