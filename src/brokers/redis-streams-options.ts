import { type OptionsInput, type OptionsOf, integer, list, object, string, url } from '../options.ts'
import { ca, cloudEventsSource, connectTimeoutMs, readers } from './common-options.ts'

/** User and password are decoded for AUTH; the path is the number of a database. */
function isComplete({ username, password, pathname, hostname }: URL): boolean {
  try {
    decodeURIComponent(`${username} ${password}`)
    return hostname !== '' && /^(\/\d{0,9})?$/.test(pathname)
  } catch {
    return false
  }
}

/** What every connection to Redis needs, to publish or to consume. */
const { url: address, ...connection } = {
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
  connectTimeoutMs,
  ca,
}

export const redisStreamsOptions = object({
  url: address,
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
  ...connection,
  cloudEventsSource,
})

export const redisStreamsSourceOptions = object({
  url: address,
  streams: list(string(), { min: 1, max: 100 }).describe('the streams to read; one that is missing is made'),
  group: string({ maxLength: 255 }).describe(
    'name of the consumer group of this service; it is made when it does not exist, and begins with the oldest entry',
  ),
  readers,
  prefetch: integer({ min: 1, max: 10_000 })
    .default(100)
    .describe('entries that may be without an answer at once'),
  claimAfterMs: integer({ min: 1000, max: 3_600_000 })
    .default(10_000)
    .describe('after so many milliseconds the entries of a process that died are given to another one'),
  ...connection,
})

export type RedisStreamsSettings = OptionsOf<typeof redisStreamsOptions>
export type RedisStreamsSourceSettings = OptionsOf<typeof redisStreamsSourceOptions>
export type RedisConnectionSettings = Pick<RedisStreamsSettings, 'url' | 'connectTimeoutMs' | 'ca'>
/** What a user may write for a destination of Redis Streams. */
export type RedisStreamsOptions = OptionsInput<typeof redisStreamsOptions>
/** What a user may write for `redisStreamsSource`. */
export type RedisStreamsSourceOptions = OptionsInput<typeof redisStreamsSourceOptions>
