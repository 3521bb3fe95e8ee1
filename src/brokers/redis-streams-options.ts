import { type OptionsInput, type OptionsOf, integer, object, string, url } from '../options.ts'

/** User and password are decoded for AUTH; the path is the number of a database. */
function isComplete({ username, password, pathname, hostname }: URL): boolean {
  try {
    decodeURIComponent(`${username} ${password}`)
    return hostname !== '' && /^(\/\d{0,9})?$/.test(pathname)
  } catch {
    return false
  }
}

export const redisStreamsOptions = object({
  url: url({
    protocols: ['redis', 'rediss'],
    accepts: isComplete,
    expected:
      'a URL that starts with redis:// or rediss://, with the number of the database as its path, ' +
      'in which a % of the password is written as %25',
  }).describe(
    'address of the server, with user, password and number of the database: `redis://user:password@host:6379/0`; ' +
      '`rediss://` is TLS',
  ),
  maxLength: integer({ min: 1, max: Number.MAX_SAFE_INTEGER })
    .optional()
    .describe(
      'a stream keeps about so many entries, and older ones are removed, read or not; left out: nothing is removed',
    ),
  maxMessageBytes: integer({ min: 1, max: 536_870_912 })
    .default(536_870_912)
    .describe(
      "a larger body makes its event a dead letter, in bytes; not above the server's proto-max-bulk-len",
    ),
  connectTimeoutMs: integer({ min: 10, max: 600_000 })
    .default(5000)
    .describe('limit for connecting, in milliseconds'),
  ca: string({ pattern: /-----BEGIN CERTIFICATE-----/, expected: 'certificates in PEM form' })
    .optional()
    .describe('certificates to trust instead of the built-in ones, as PEM text'),
  cloudEventsSource: string({ maxLength: 1000 })
    .default('/waybill')
    .describe('first part of the attribute `source` in the CloudEvents formats'),
})

export type RedisStreamsSettings = OptionsOf<typeof redisStreamsOptions>
/** What a user may write for a destination of Redis Streams. */
export type RedisStreamsOptions = OptionsInput<typeof redisStreamsOptions>
