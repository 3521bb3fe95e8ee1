import { type OptionsInput, type OptionsOf, boolean, integer, object, string, url } from '../options.ts'
import { ca, cloudEventsSource, connectTimeoutMs } from './common-options.ts'

const expectedUrl =
  'a URL that starts with amqp:// or amqps://, in which a % of the password is written as %25'

/** The library decodes these parts, and fails at the first connection when it cannot. */
function canBeDecoded({ username, password, pathname }: URL): boolean {
  try {
    decodeURIComponent(`${username} ${password} ${pathname}`)
    return true
  } catch {
    return false
  }
}

/** Of a connection, whatever it is used for. */
export const connection = {
  url: url({ protocols: ['amqp', 'amqps'], accepts: canBeDecoded, expected: expectedUrl }).describe(
    'address of the broker, with user, password and virtual host: `amqp://user:password@host:5672/vhost`',
  ),
  connectTimeoutMs,
  heartbeatSeconds: integer({ min: 1, max: 3600 })
    .default(10)
    .describe('interval in which both sides show that they live, in seconds'),
  ca,
}

const { url: address, ...otherConnection } = connection

export const rabbitmqOptions = object({
  url: address,
  exchange: string({
    minLength: 0,
    accepts: (name) => Buffer.byteLength(name) <= 255,
    expected: 'a name of at most 255 bytes',
  })
    .default('')
    .describe(
      'the exchange, which must exist; the routing key is the topic of the event. Empty: the default exchange, ' +
        'where the routing key is the name of a queue',
    ),
  mandatory: boolean()
    .default(true)
    .describe('an event for which no queue is bound is not published; false: the broker throws it away'),
  maxMessageBytes: integer({ min: 1, max: 536_870_912 })
    .default(16_777_216)
    .describe(
      "a larger body makes its event a dead letter, in bytes; not above the broker's max_message_size",
    ),
  ...otherConnection,
  cloudEventsSource,
})

export type RabbitmqSettings = OptionsOf<typeof rabbitmqOptions>
/** What a user may write for a RabbitMQ destination. */
export type RabbitmqOptions = OptionsInput<typeof rabbitmqOptions>
