import { type OptionsInput, type OptionsOf, either, integer, list, object, string, url } from '../options.ts'
import { certificates, cloudEventsSource, connectTimeoutMs, readers } from './common-options.ts'

/** The credentials in it are decoded once for the connection. */
function canBeDecoded({ username, password }: URL): boolean {
  try {
    decodeURIComponent(`${username} ${password}`)
    return true
  } catch {
    return false
  }
}

const server = url({
  protocols: ['nats', 'tls'],
  accepts: canBeDecoded,
  expected: 'a URL that starts with nats:// or tls://, in which a % of the password is written as %25',
})

/** What every connection to NATS needs, to publish or to consume. */
const { url: address, ...connection } = {
  url: either([server, list(server, { min: 1, max: 100 })], (value) =>
    Array.isArray(value) ? 1 : 0,
  ).describe(
    'address of the server, with user and password or a token: `nats://user:password@host:4222`, ' +
      '`nats://token@host`; `tls://` insists on TLS. A list for a cluster: one of them is used',
  ),
  creds: string({
    secret: true,
    pattern: /-----BEGIN NATS USER JWT-----[^]*-----BEGIN USER NKEY SEED-----/,
    expected: 'the text of a credentials file',
  })
    .optional()
    .describe('text of a credentials file (JWT and seed), instead of a user in `url`'),
  inboxPrefix: string({ maxLength: 200, pattern: /^[^\s.*>]+(\.[^\s.*>]+)*$/, expected: 'a subject' })
    .default('_INBOX')
    .describe('first part of the subject for answers, which the user must be allowed to subscribe to'),
  connectTimeoutMs: connectTimeoutMs.describe('limit for connecting to one server, in milliseconds'),
  ca: certificates
    .optional()
    .describe('certificates to trust instead of the built-in ones, as PEM text; insists on TLS'),
  cert: certificates.optional().describe('certificate of the client, as PEM text; insists on TLS'),
  key: string({ secret: true, pattern: /-----BEGIN [A-Z ]*PRIVATE KEY-----/, expected: 'a key in PEM form' })
    .optional()
    .describe('private key for `cert`, as PEM text'),
}

function checkPair({ cert, key }: { cert?: string; key?: string }, path: string): string | undefined {
  return (cert === undefined) === (key === undefined)
    ? undefined
    : `expected ${path}.cert and ${path}.key together, got one of them`
}

const name = (what: string) =>
  string({ maxLength: 255, pattern: /^[^\s.*>/\\]+$/, expected: `a name of a ${what}` })

export const natsOptions = object(
  {
    url: address,
    stream: name('stream')
      .optional()
      .describe('the stream that every event must go to; left out: whichever takes the subject'),
    ...connection,
    cloudEventsSource,
  },
  { check: checkPair },
)

export const natsSourceOptions = object(
  {
    url: address,
    stream: name('stream').describe('the stream to read, which must exist'),
    consumer: name('consumer').describe(
      'name of the durable consumer of this service; it is made when it does not exist',
    ),
    subject: string({ maxLength: 2000, pattern: /^\S+$/, expected: 'a subject, which may have wildcards' })
      .optional()
      .describe('only messages with this subject; for a consumer that is made'),
    readers,
    prefetch: integer({ min: 1, max: 10_000 })
      .default(100)
      .describe('messages that may be without an answer at once'),
    ackWaitMs: integer({ min: 1000, max: 3_600_000 })
      .default(10_000)
      .describe(
        'after so many milliseconds the messages of a process that died are given to another one; for a consumer ' +
          'that is made',
      ),
    ...connection,
  },
  { check: checkPair },
)

export type NatsSettings = OptionsOf<typeof natsOptions>
export type NatsSourceSettings = OptionsOf<typeof natsSourceOptions>
export type NatsConnectionSettings = Omit<NatsSettings, 'stream' | 'cloudEventsSource'>
/** What a user may write for a NATS destination. */
export type NatsOptions = OptionsInput<typeof natsOptions>
/** What a user may write for `natsSource`. */
export type NatsSourceOptions = OptionsInput<typeof natsSourceOptions>
