import { type Connection, createConnection } from '../database/connection.ts'
import { checkSchemaName } from '../database/identifiers.ts'
import { type OptionsInput, resolveOptions } from '../options.ts'
import { within } from '../pause.ts'
import type { Telemetry } from '../telemetry/events.ts'
import { openFactSources } from '../publications/fact-sources.ts'
import type { PublicationOptions } from '../publications/publication.ts'
import type { StoredAudits } from './stored-audit.ts'
import { createAuditor } from './auditor.ts'
import { createPruner } from './pruner.ts'
import { retentionSpec } from './retention.ts'
import type { StoredSample } from './sample.ts'
import { createSampler } from './sampler.ts'

export interface HousekeepingOptions {
  databaseUrl: string
  /** Default: `waybill`. */
  schema?: string
  /**
   * That of the relay, whose `database.down` is heeded; hears `sample.taken`, `sample.failed`, `audit.taken`,
   * `audit.failed`, `prune.finished`, `prune.failed`.
   */
  telemetry: Telemetry
  /** `relay.id`: the relay on whose behalf this is done. */
  relayId: string
  /**
   * Days that a published event is kept (default 7, 0 to 36 500), and a table of your own that keeps what is
   * removed (default: none). `false` removes nothing.
   */
  retention?: OptionsInput<typeof retentionSpec> | false
  /** Publications to audit, by name, as in the configuration. Default: none. */
  publications?: Readonly<Record<string, PublicationOptions>>
}

/** What has to be done beside the delivery: counting, audits and retention, by one relay at a time for all. */
export interface Housekeeping {
  /** Begins at once, and goes on by itself when the database is away. */
  start(): void
  /** Ends what is under way at its next safe point, or with its connection after two seconds. */
  stop(): Promise<void>
  /** The newest counts of the outbox with their age, for `createMetrics({ sample })`; null when none are known. */
  sample(): StoredSample | null
  /** What the last audits found, for `createMetrics({ audits })`; null when nothing is known. */
  audits(): StoredAudits | null
}

/** How long a stop waits for what is under way, in milliseconds. */
const lastStatementMs = 2_000

/**
 * Counts the outbox every five seconds and removes old events every ten minutes, and audits publications, over three
 * connections of its own.
 *
 * @throws CONFIGURATION_INVALID
 */
export function createHousekeeping(options: HousekeepingOptions): Housekeeping {
  const { databaseUrl, telemetry, relayId, retention = {}, publications = {} } = options
  const schema = checkSchemaName(options.schema ?? 'waybill')
  const kept =
    retention === false ? undefined : resolveOptions(retentionSpec, retention, { path: 'retention' })
  const connections: Connection[] = []
  const connect = (name: string) => {
    const applicationName = `waybill ${name}`
    const connection = createConnection({ databaseUrl, schema, writable: true, applicationName })
    connections.push(connection)
    return connection
  }
  const own = { schema, telemetry, relayId }
  const sampler = createSampler({ ...own, db: connect('sample') })
  const pruner = kept === undefined ? undefined : createPruner({ ...own, db: connect('prune'), ...kept })
  const facts = openFactSources(connect('audit'), { schema, publications })
  const auditor = facts.publications.size > 0 ? createAuditor({ facts, telemetry, relayId }) : undefined
  const services = [sampler, pruner, auditor].filter((service) => service !== undefined)
  // Idle as they mostly are, they would not find out, and stay with a primary that was replaced.
  const off = telemetry.on('database.down', () => connections.forEach((connection) => connection.reset()))

  return {
    start: () => services.forEach((service) => service.start()),
    async stop() {
      off()
      // A statement under way that a silent server does not answer ends with its connection.
      await within(Promise.all(services.map((service) => service.stop())), lastStatementMs)
      await Promise.all([...connections.map((connection) => connection.close()), facts.close()])
    },
    sample: () => sampler.latest(),
    audits: () => auditor?.latest() ?? null,
  }
}
