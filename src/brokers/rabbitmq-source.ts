import { type OptionsInput, integer, object, oneOf, resolveOptions, string } from '../options.ts'
import type { Source } from '../publishing/source.ts'
import { connectionOptions, where } from './amqp/connection-options.ts'
import { createQueueSource } from './amqp/source.ts'
import { loadDependency } from './dependency.ts'
import { connection } from './rabbitmq-options.ts'

const { url, ...otherConnection } = connection

export const rabbitmqSourceOptions = object({
  url,
  queue: string({
    accepts: (name) => Buffer.byteLength(name) <= 255,
    expected: 'a name of at most 255 bytes',
  }).describe('the queue, which must exist'),
  readers: oneOf('exclusive', 'single-active', 'shared')
    .default('exclusive')
    .describe(
      'who reads the queue: one process at a time (`exclusive`; `single-active` for a queue that was declared with ' +
        '`x-single-active-consumer`), or all at once and without order (`shared`)',
    ),
  prefetch: integer({ min: 1, max: 65_535 })
    .default(100)
    .describe('messages that may be without an answer at once'),
  ...otherConnection,
})

/** What a user may write for {@link rabbitmqSource}. */
export type RabbitmqSourceOptions = OptionsInput<typeof rabbitmqSourceOptions>

/**
 * Reads a queue of RabbitMQ, for `createConsumer`. Needs the package `rabbitmq-client`.
 *
 *     const source = rabbitmqSource({ url: process.env.AMQP_URL, queue: 'billing' })
 *
 * @throws CONFIGURATION_INVALID; `start` rejects with DEPENDENCY_MISSING, with BROKER_UNAVAILABLE when the queue or the
 *   user is refused, and with CONFIGURATION_INVALID when `readers` is `exclusive` and the queue cannot be
 */
export function rabbitmqSource(options: RabbitmqSourceOptions & { name?: string }): Source {
  const { name = 'rabbitmq', ...rest } = options
  const settings = resolveOptions(rabbitmqSourceOptions, rest, { path: name })
  return createQueueSource({
    ...{ name, where: where(settings.url), vhost: new URL(settings.url).pathname.slice(1), ...settings },
    optionsFor: (frameBytes) => connectionOptions(settings, name, frameBytes),
    async open() {
      const library = await loadDependency('rabbitmq', 'rabbitmq-client', () => import('rabbitmq-client'))
      return library.Connection
    },
  })
}
