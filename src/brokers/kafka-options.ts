import {
  type OptionsInput,
  type OptionsOf,
  boolean,
  instance,
  integer,
  list,
  object,
  oneOf,
  string,
} from '../options.ts'
import { cloudEventsSource, connectTimeoutMs } from './common-options.ts'

const pem = (what: string) =>
  string({
    pattern: /-----BEGIN [A-Z ]+-----/,
    expected: `${what} in PEM form`,
    secret: what !== 'certificates',
  })

// Not shown when it is wrong: somebody may have written a URL with a password.
const address = string({
  pattern: /^[^\s:/@,]+:\d{1,5}$/,
  expected: 'an address "host:port"',
  secret: true,
})
const maxMessageBytes = integer({ min: 1024, max: 104_857_600 })
  .default(1_048_588)
  .describe(
    'a larger message makes its event a dead letter, in bytes with key and headers; larger batches are split. ' +
      "Not above the topics' max.message.bytes",
  )

/** How to reach the cluster. */
const connection = {
  brokers: list(address, { min: 1, max: 100 }).describe(
    'addresses to begin with, `host:port`; the cluster names the others',
  ),
  clientId: string({ maxLength: 255 })
    .default('waybill')
    .describe('how the brokers call this client in logs and quotas'),
  tls: boolean().default(false).describe('encrypts the connections'),
  ca: pem('certificates')
    .optional()
    .describe('certificates to trust instead of the built-in ones, as PEM text; needs `tls`'),
  cert: pem('certificates').optional().describe('certificate to log in with, as PEM text; needs `key`'),
  key: pem('a private key').optional().describe('private key of `cert`, as PEM text'),
  sasl: object({
    mechanism: oneOf('plain', 'scram-sha-256', 'scram-sha-512').describe('how to log in'),
    username: string().describe('who logs in'),
    password: string({ secret: true }).describe('with `plain` and without `tls` it travels in the clear'),
  })
    .optional()
    .describe('logs in with a user and a password'),
}
const rest = {
  connectTimeoutMs: connectTimeoutMs.describe('limit for connecting to one broker, in milliseconds'),
  client: instance<object>(
    "options of KafkaJS's constructor",
    (value) => typeof value === 'object' && value !== null,
  )
    .optional()
    .describe('further options of KafkaJS, in code: `sasl` with a token provider, `socketFactory`'),
}
const connectionSpec = object({ ...connection, ...rest })
export type KafkaConnectionSettings = OptionsOf<typeof connectionSpec>

function checkTls({ tls, ca, cert, key }: KafkaConnectionSettings, path: string): string | undefined {
  if (!tls && (ca ?? cert ?? key) !== undefined)
    return `expected ${path}.tls to be true, since ca, cert or key is given`
  if ((cert === undefined) !== (key === undefined))
    return `expected ${path} to have both cert and key, or none of them`
  return undefined
}

export const kafkaOptions = object(
  {
    ...connection,
    createTopics: boolean()
      .default(false)
      .describe('lets a broker make a missing topic, where its auto.create.topics.enable allows that'),
    compression: oneOf('none', 'gzip').default('none').describe('of what is sent'),
    maxMessageBytes,
    ...rest,
    cloudEventsSource,
  },
  { check: checkTls },
)

export type KafkaSettings = OptionsOf<typeof kafkaOptions>
/** What a user may write for a Kafka destination. */
export type KafkaOptions = OptionsInput<typeof kafkaOptions>

export const kafkaProducerOptions = object({ maxMessageBytes, cloudEventsSource })
/** What may be given beside a ready producer. */
export type KafkaProducerOptions = OptionsInput<typeof kafkaProducerOptions>

export const kafkaSourceOptions = object(
  {
    ...connection,
    group: string({ maxLength: 255 }).describe(
      'consumer group: each message goes to one of its members; one for each service, never changed',
    ),
    topics: list(string({ maxLength: 249 }), { min: 1, max: 1000 }).describe('what is read'),
    from: oneOf('earliest', 'latest')
      .default('earliest')
      .describe('where a group begins that has never read here'),
    prefetch: integer({ min: 1, max: 10_000 })
      .default(100)
      .describe('messages that may wait for their handlers at once'),
    sessionTimeoutMs: integer({ min: 1000, max: 1_800_000 })
      .default(10_000)
      .describe(
        'how long the group waits for a member that says nothing, in milliseconds; not below ' +
          "the brokers' group.min.session.timeout.ms, 6000 by default",
      ),
    ...rest,
  },
  { check: checkTls },
)
export type KafkaSourceSettings = OptionsOf<typeof kafkaSourceOptions>
/** What a user may write for a Kafka source. */
export type KafkaSourceOptions = OptionsInput<typeof kafkaSourceOptions>
