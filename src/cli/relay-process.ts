import { createAdminServer } from '../admin/server.ts'
import { createHousekeeping } from '../operations/housekeeping.ts'
import { createRelay } from '../relay/relay.ts'
import type { Relay } from '../relay/relay-api.ts'
import { createTelemetry } from '../telemetry/events.ts'
import { createLog } from '../telemetry/log.ts'
import { createMetrics } from '../telemetry/metrics.ts'
import type { DatabaseConfiguration } from './context.ts'
import { createDestinations } from './destinations.ts'
import { given } from './flags.ts'

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
  const housekeeping = createHousekeeping({
    ...{ databaseUrl, schema, telemetry, relayId: relay.id },
    ...{ retention, publications: configuration.publications },
  })
  let stopping = false
  const server = serve
    ? createAdminServer({
        ...given(admin),
        database: { databaseUrl, schema, writable: true },
        publications: configuration.publications,
        health: () => (stopping ? { live: true, ready: false, reason: 'the relay stops' } : relay.health()),
        metrics: createMetrics({ telemetry, sample: housekeeping.sample, audits: housekeeping.audits }),
        telemetry,
      })
    : undefined

  return {
    relay,
    async start() {
      try {
        await server?.start()
        await relay.start()
      } catch (error) {
        await Promise.all([relay.stop({ graceMs: 0 }), housekeeping.stop(), server?.stop()])
        throw error
      }
      if (serve && !stopping) housekeeping.start()
    },
    async stop() {
      stopping = true
      // Together: with a database that is silent each waits for its last statement.
      const [result] = await Promise.all([relay.stop(), housekeeping.stop()])
      await server?.stop()
      return result
    },
  }
}
