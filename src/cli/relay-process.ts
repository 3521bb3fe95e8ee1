import { createAdminServer } from '../admin/server.ts'
import { createConnection } from '../database/connection.ts'
import { createAuditor } from '../operations/auditor.ts'
import { createPruner } from '../operations/pruner.ts'
import { createSampler } from '../operations/sampler.ts'
import { within } from '../pause.ts'
import { openFactSources } from '../publications/fact-sources.ts'
import { createRelay } from '../relay/relay.ts'
import type { Relay } from '../relay/relay-api.ts'
import { createTelemetry } from '../telemetry/events.ts'
import { createLog } from '../telemetry/log.ts'
import { createMetrics } from '../telemetry/metrics.ts'
import type { DatabaseConfiguration } from './context.ts'
import { createDestinations } from './destinations.ts'
import { given } from './flags.ts'
import { retentionOptions } from './retention-options.ts'

/** A relay and everything around it, as one process runs it. */
export interface RelayProcess {
  readonly relay: Relay
  /**
   * Starts the HTTP server first, so that a port in use is told before any work is taken, then the relay, then
   * counting, retention and audits. Goes on by itself when the database or a destination is away.
   *
   * @throws CONFIGURATION_INVALID for the HTTP address, SCHEMA_MISSING, SCHEMA_OUTDATED, SCHEMA_NEWER
   */
  start(): Promise<void>
  /** The other way round. False when the work under way did not end within the grace time. */
  stop(): Promise<{ clean: boolean }>
}

/** How long a stop waits for counting and retention, in milliseconds. */
const lastStatementMs = 2_000

/** @throws CONFIGURATION_INVALID, DEPENDENCY_MISSING */
export async function createRelayProcess(
  configuration: DatabaseConfiguration,
  { serve }: { serve: boolean },
): Promise<RelayProcess> {
  const { databaseUrl, schema, routes, admin, retention, log: logOptions } = configuration
  const telemetry = createTelemetry()
  createLog(logOptions).attach(telemetry)
  const destinations = await createDestinations(configuration.destinations)
  const relay = createRelay({
    ...configuration.relay,
    ...{ databaseUrl, schema, destinations, telemetry },
    routes: typeof routes === 'function' ? routes : [...routes],
  })
  const connect = (name: string) =>
    createConnection({ databaseUrl, schema, writable: true, applicationName: `waybill ${name}` })
  const sampling = connect('sample')
  const pruning = connect('prune')
  const auditing = connect('audit')
  // Idle as they mostly are, they would not find out, and stay with a primary that was replaced.
  telemetry.on('database.down', () =>
    [sampling, pruning, auditing].forEach((connection) => connection.reset()),
  )
  const own = { schema, telemetry, relayId: relay.id }
  const sampler = createSampler({ ...own, db: sampling })
  const pruner = createPruner({ ...own, db: pruning, ...retentionOptions(retention) })
  const facts = openFactSources(auditing, configuration)
  const auditor =
    facts.publications.size > 0 ? createAuditor({ facts, telemetry, relayId: relay.id }) : undefined
  let stopping = false
  const server = serve
    ? createAdminServer({
        ...given(admin),
        database: { databaseUrl, schema, writable: true },
        publications: configuration.publications,
        health: () => (stopping ? { live: true, ready: false, reason: 'the relay stops' } : relay.health()),
        metrics: createMetrics({
          telemetry,
          sample: () => sampler.latest(),
          audits: () => auditor?.latest() ?? null,
        }),
        telemetry,
      })
    : undefined

  async function close(): Promise<void> {
    // A statement under way that a silent server does not answer ends with its connection.
    await within(Promise.all([pruner.stop(), sampler.stop(), auditor?.stop()]), lastStatementMs)
    await Promise.all([pruning.close(), sampling.close(), auditing.close(), facts.close(), server?.stop()])
  }

  return {
    relay,
    async start() {
      try {
        await server?.start()
        await relay.start()
      } catch (error) {
        await Promise.all([relay.stop({ graceMs: 0 }), close()])
        throw error
      }
      if (!serve || stopping) return
      sampler.start()
      pruner.start()
      auditor?.start()
    },
    async stop() {
      stopping = true
      const result = await relay.stop()
      await close()
      return result
    },
  }
}
