import { type TestContext, describe, it } from 'vitest'
import {
  findChromium,
  findKafka,
  findNats,
  findPgbouncer,
  findProgram,
  findRabbitmq,
  findRedis,
} from './programs.ts'

declare module 'vitest' {
  export interface TaskMeta {
    /** Why this test or suite is skipped: the reporter prints one table of these at the end of the run. */
    missing?: { service: ServiceName; why: string }
  }
}

/**
 * Everything that a test may need and a machine may lack. `kafka`, `nats` and `redis` may be the server of a variable;
 * who stops, cuts off or configures it needs one of the test's own: `kafka-server`, `nats-server`, `redis-server`.
 */
export type ServiceName =
  | 'rabbitmq'
  | 'kafka'
  | 'kafka-server'
  | 'nats'
  | 'nats-server'
  | 'redis'
  | 'redis-server'
  | 'sqs'
  | 'pgbouncer'
  | 'chromium'

/** With WAYBILL_TEST_REQUIRE=all whatever is missing fails instead of being skipped. */
const requireAll = process.env['WAYBILL_TEST_REQUIRE'] === 'all'

function findFauxqs(): string | undefined {
  try {
    return import.meta.resolve('fauxqs')
  } catch {
    return undefined
  }
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
  if (service === 'kafka' || service === 'kafka-server') return whyNoKafka(service)
  if (service === 'chromium') {
    return findChromium() === undefined
      ? 'chromium is not installed (scripts/install-test-services.sh)'
      : undefined
  }
  if (service === 'sqs') {
    // A package of npm, with nothing to install beside it.
    const there = process.env['WAYBILL_TEST_SQS_URL'] !== undefined || findFauxqs() !== undefined
    return there ? undefined : 'the package fauxqs is not installed (npm ci)'
  }
  return findPgbouncer() === undefined
    ? 'pgbouncer is not installed (scripts/install-test-services.sh)'
    : undefined
}

function whyNoKafka(service: 'kafka' | 'kafka-server'): string | undefined {
  const install = '(scripts/install-test-services.sh)'
  if (findProgram('kcat') === undefined) return `kcat is not installed ${install}`
  if (service === 'kafka' && process.env['WAYBILL_TEST_KAFKA_URL'] !== undefined) return undefined
  if (findProgram('java') === undefined) return `java is not installed ${install}`
  return findKafka() === undefined ? `the jars of Kafka are not there ${install}` : undefined
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
