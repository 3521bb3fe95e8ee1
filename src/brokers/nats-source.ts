import { randomUUID } from 'node:crypto'
import { WaybillError, describeError, hasCode } from '../errors.ts'
import { resolveOptions } from '../options.ts'
import type { Source } from '../publishing/source.ts'
import { type NatsSourceOptions, natsSourceOptions } from './nats-options.ts'
import { hostAndPort } from './nats/connect-options.ts'
import { loadNats } from './nats/library.ts'
import { openNatsReading } from './nats/reading.ts'
import { createReadingSource } from './reading/source.ts'

/**
 * Reads a stream of NATS JetStream through a durable consumer, for `createConsumer`. Needs the packages
 * `@nats-io/transport-node` and `@nats-io/jetstream`.
 *
 *     const source = natsSource({ url: process.env.NATS_URL, stream: 'OUTBOX', consumer: 'billing' })
 *
 * @throws CONFIGURATION_INVALID; `start` rejects with DEPENDENCY_MISSING, with CONFIGURATION_INVALID for a consumer that
 *   would lose messages, and with BROKER_UNAVAILABLE when the stream is missing or the user is refused
 */
export function natsSource(options: NatsSourceOptions & { name?: string }): Source {
  const { name = 'nats', ...rest } = options
  const settings = resolveOptions(natsSourceOptions, rest, { path: name })
  const { stream, consumer, readers, prefetch } = settings
  const where = `NATS at ${[settings.url].flat().map(hostAndPort).join(', ')}`
  const owner = randomUUID()

  return createReadingSource({
    name,
    subscription: `nats:stream=${stream} consumer=${consumer}`,
    exclusive: readers === 'exclusive',
    prefetch,
    async open(signal) {
      return openNatsReading({ library: await loadNats(), name, settings, owner }, signal)
    },
    isRefusal: (error) =>
      hasCode(error, 'DEPENDENCY_MISSING') ||
      hasCode(error, 'CONFIGURATION_INVALID') ||
      refusal.test(describeError(error)),
    toError(cause) {
      if (hasCode(cause, 'DEPENDENCY_MISSING') || hasCode(cause, 'CONFIGURATION_INVALID')) return cause
      const text = `${name}: ${where}: ${describeError(cause, 300)}`
      return new WaybillError('BROKER_UNAVAILABLE', text, { cause })
    },
  })
}

const refusal = /Authorization Violation|Permissions Violation|does not exist, create it/
