import { existsSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { type TestContext, describe, it } from 'vitest'

declare module 'vitest' {
  export interface TaskMeta {
    /** Why this test or suite is skipped: the reporter prints one table of these at the end of the run. */
    missing?: { service: ServiceName; why: string }
  }
}

/**
 * Everything that a test may need and a machine may lack. `nats` and `redis` may be the server of a variable; who stops
 * or configures it needs the program itself.
 */
export type ServiceName = 'rabbitmq' | 'nats' | 'nats-server' | 'redis' | 'redis-server' | 'pgbouncer'

/** With WAYBILL_TEST_REQUIRE=all whatever is missing fails instead of being skipped. */
const requireAll = process.env['WAYBILL_TEST_REQUIRE'] === 'all'

/** Where a program is: in one of the given folders, else in PATH. */
export function findProgram(name: string, folders: readonly string[] = []): string | undefined {
  const path = (process.env['PATH'] ?? '').split(delimiter).filter((folder) => folder !== '')
  return [...folders, ...path].map((folder) => join(folder, name)).find((file) => existsSync(file))
}

/** RabbitMQ's own script: the one that Debian puts into PATH changes to another account first. */
export function findRabbitmq(): string | undefined {
  const places = process.env['WAYBILL_TEST_SERVICE_PLACES'] ?? '/usr/lib/rabbitmq/bin'
  return findProgram(
    'rabbitmq-server',
    places.split(delimiter).filter((place) => place !== ''),
  )
}

/** Debian has it among the programs of the administrator, where PATH of others does not look. */
export function findPgbouncer(): string | undefined {
  return findProgram('pgbouncer', ['/usr/sbin'])
}

/** Also among the programs of the administrator. */
export function findNats(): string | undefined {
  return findProgram('nats-server', ['/usr/sbin'])
}

export function findRedis(): string | undefined {
  return findProgram('redis-server')
}

/** Why a service cannot be had here, or undefined when it can. */
export function whyMissing(service: ServiceName): string | undefined {
  if (service === 'rabbitmq') {
    const there = process.env['WAYBILL_TEST_RABBITMQ_URL'] !== undefined || findRabbitmq() !== undefined
    return there ? undefined : 'rabbitmq-server is not installed (scripts/install-test-services.sh)'
  }
  if (service === 'nats' && process.env['WAYBILL_TEST_NATS_URL'] !== undefined) return undefined
  if (service === 'nats' || service === 'nats-server') {
    return findNats() === undefined
      ? 'nats-server is not installed (scripts/install-test-services.sh)'
      : undefined
  }
  if (service === 'redis' && process.env['WAYBILL_TEST_REDIS_URL'] !== undefined) return undefined
  if (service === 'redis' || service === 'redis-server') {
    return findRedis() === undefined
      ? 'redis-server is not installed (scripts/install-test-services.sh)'
      : undefined
  }
  return findPgbouncer() === undefined
    ? 'pgbouncer is not installed (scripts/install-test-services.sh)'
    : undefined
}

/** A suite that needs a service: skipped by name where it is missing. Start the service in `beforeAll`. */
export function describeWith(service: ServiceName, name: string, tests: () => void): void {
  const why = whyMissing(service)
  if (why !== undefined && requireAll) {
    describe(name, () => {
      it(`needs ${service}`, () => {
        throw new Error(`${service} is required: ${why}`)
      })
    })
    return
  }
  describe.runIf(why === undefined)(
    name,
    { meta: why === undefined ? {} : { missing: { service, why } } },
    tests,
  )
}

/** For one test: `it('…', async (context) => { requireService(context, 'rabbitmq'); … })`. */
export function requireService(context: TestContext, service: ServiceName): void {
  const why = whyMissing(service)
  if (why === undefined) return
  if (requireAll) throw new Error(`${service} is required: ${why}`)
  context.task.meta.missing = { service, why }
  context.skip(`${service}: ${why}`)
}
