import type { ConnectionOptions } from '@nats-io/transport-node'
import type { NatsConnectionSettings } from '../nats-options.ts'
import type { NatsLibrary } from './library.ts'

const defaultPort = '4222'
/** How soon a dead connection is noticed while nothing is sent: after two pings without an answer. */
const pingIntervalMs = 10_000

/** How the client connects to one server, once: whoever wants another connection asks for it. */
export function connectOptions(
  library: NatsLibrary,
  name: string,
  server: string,
  settings: NatsConnectionSettings,
): ConnectionOptions {
  const url = new URL(server)
  const tls = tlsOptions(url, settings)
  return {
    name: `waybill ${name}`,
    servers: hostAndPort(server),
    reconnect: false,
    ignoreClusterUpdates: true,
    timeout: settings.connectTimeoutMs,
    pingInterval: pingIntervalMs,
    inboxPrefix: settings.inboxPrefix,
    noAsyncTraces: true,
    ...credentials(library, url, settings.creds),
    ...(tls === undefined ? {} : { tls }),
  }
}

function credentials(library: NatsLibrary, url: URL, creds: string | undefined): ConnectionOptions {
  if (creds !== undefined) return { authenticator: library.credsAuthenticator(Buffer.from(creds)) }
  const [user, pass] = [decodeURIComponent(url.username), decodeURIComponent(url.password)]
  if (user === '') return {}
  // As in all clients of NATS: a name without a password is a token.
  return pass === '' ? { token: user } : { user, pass }
}

function tlsOptions(url: URL, { ca, cert, key }: NatsConnectionSettings): ConnectionOptions['tls'] {
  if (url.protocol !== 'tls:' && ca === undefined && cert === undefined) return undefined
  // The client would compare the certificate of a server that has an address for a name with `localhost`.
  const checked = { host: url.hostname.replace(/^\[(.*)\]$/, '$1') }
  return {
    ...checked,
    ...(ca === undefined ? {} : { ca }),
    ...(cert === undefined || key === undefined ? {} : { cert, key }),
  }
}

/** What may be shown of an address with a password. */
export function hostAndPort(server: string): string {
  const { hostname, port } = new URL(server)
  return `${hostname}:${port || defaultPort}`
}
