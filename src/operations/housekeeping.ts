import { createConnection } from '../database/connection.ts'
import { checkSchemaName } from '../database/identifiers.ts'
import { number, object, resolveOptions, string } from '../options.ts'
import type { Telemetry } from '../telemetry/events.ts'
import type { ArchiveTable } from './archive.ts'
import { openFactSources } from '../publications/fact-sources.ts'
import type { PublicationOptions } from '../publications/publication.ts'
import type { StoredAudits } from './stored-audit.ts'
import { createAuditor } from './auditor.ts'
import { createPruner } from './pruner.ts'
import type { StoredSample } from './sample.ts'
import { createSampler } from './sampler.ts'

export interface HousekeepingOptions {
  databaseUrl: string
  /** Default: `waybill`. */
  schema?: string
  /** That of the relay; hears `sample.taken`, `sample.failed`, `audit.taken`, `audit.failed`, `prune.finished`, `prune.failed`. */
  telemetry: Telemetry
  /** `relay.id`: the relay on whose behalf this is done. */
  relayId: string
  /**
   * Days that a published event is kept (default 7, 0 to 36 500), and a table of your own that keeps what is
   * removed (default: none). `false` removes nothing.
   */
  retention?: { processedDays?: number; archive?: ArchiveTable } | false
  /** Publications to audit, by name, as in the configuration. Default: none. */
  publications?: Readonly<Record<string, PublicationOptions>>
}

/** What has to be done beside the delivery: counting, audits and retention, by one relay at a time for all. */
export interface Housekeeping {
  /** Begins at once, and goes on by itself when the database is away. */
  start(): void
  /** Ends what is under way at its next safe point. */
  stop(): Promise<void>
  /** The newest counts of the outbox with their age, for `createMetrics({ sample })`; null when none are known. */
  sample(): StoredSample | null
  /** What the last audits found, for `createMetrics({ audits })`; null when nothing is known. */
  audits(): StoredAudits | null
}

const retentionSpec = object({
  processedDays: number({ min: 0, max: 36_500 }).default(7),
  archive: object({
    schema: string({ maxLength: 63 }).optional(),
    table: string({ maxLength: 63 }),
  }).optional(),
})

/**
 * Counts the outbox every five seconds and removes old events every ten minutes, and audits publications, over three
 * connections of its own.
 *
 * @throws CONFIGURATION_INVALID
 */
export function createHousekeeping(options: HousekeepingOptions): Housekeeping {
  const { databaseUrl, telemetry, relayId, retention = {} } = options
  const schema = checkSchemaName(options.schema ?? 'waybill')
  const kept =
    retention === false ? undefined : resolveOptions(retentionSpec, retention, { path: 'retention' })
  const connect = (name: string) =>
    createConnection({ databaseUrl, schema, writable: true, applicationName: `waybill ${name}` })
  const own = { schema, telemetry, relayId }
  const sampling = connect('sample')
  const sampler = createSampler({ ...own, db: sampling })
  const pruning = connect('prune')
  const facts = openFactSources(connect('audit'), { schema, publications: options.publications ?? {} })
  const auditor = facts.publications.size > 0 ? createAuditor({ facts, telemetry, relayId }) : undefined
  const pruner = kept === undefined ? undefined : createPruner({ ...own, db: pruning, ...kept })

  return {
    start() {
      sampler.start()
      pruner?.start()
      auditor?.start()
    },
    async stop() {
      await Promise.all([sampler.stop(), pruner?.stop(), auditor?.stop()])
      await Promise.all([sampling.close(), pruning.close(), facts.sources.outbox.db.close(), facts.close()])
    },
    sample: () => sampler.latest(),
    audits: () => auditor?.latest() ?? null,
  }
}
