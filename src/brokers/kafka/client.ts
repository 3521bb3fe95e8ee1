import { connect as connectTcp, isIP, type Socket } from 'node:net'
import { type ConnectionOptions, connect as connectTls } from 'node:tls'
import type { ISocketFactory, KafkaConfig, SASLOptions } from 'kafkajs'
import type { KafkaConnectionSettings } from '../kafka-options.ts'

/** The sockets of one client of KafkaJS, which can be ended whatever KafkaJS still wants. */
export interface Sockets {
  /** For the client alone. */
  readonly config: KafkaConfig
  /** From now on a slow first answer is waited for. */
  connected(): void
  /** Ends every connection at once; no other is made. */
  destroy(): void
}

export function createSockets(settings: KafkaConnectionSettings): Sockets {
  const config = clientConfig(settings)
  const sockets = new Set<Socket>()
  const makeSocket = config.socketFactory ?? defaultSocket
  let connecting = true
  let destroyed = false

  const socketFactory: ISocketFactory = (args) => {
    // KafkaJS would connect again for a call that nobody waits for.
    if (destroyed) throw new Error('the client was given up')
    const socket = makeSocket(args)
    sockets.add(socket)
    // KafkaJS calls `unref` of a closed socket for each request that finds it closed, and Node adds a listener each time.
    socket.setMaxListeners(0)
    socket.once('close', () => sockets.delete(socket))
    if (connecting) expectAnswer(socket, settings.connectTimeoutMs)
    return socket
  }

  return {
    config: {
      ...config,
      socketFactory,
      // KafkaJS writes into it.
      ...(config.sasl === undefined ? {} : { sasl: { ...config.sasl } }),
    },
    connected: () => (connecting = false),
    destroy() {
      destroyed = true
      for (const socket of sockets) socket.destroy(new Error('the client was given up'))
    },
  }
}

function clientConfig(settings: KafkaConnectionSettings): KafkaConfig {
  const { brokers, clientId, connectTimeoutMs, sasl, client = {} } = settings
  const ssl = tlsOptions(settings)
  return {
    clientId,
    // Everything that it would write into the log comes as an error, too.
    logLevel: 0,
    connectionTimeout: connectTimeoutMs,
    authenticationTimeout: connectTimeoutMs,
    ...(ssl === undefined ? {} : { ssl }),
    ...(sasl === undefined ? {} : { sasl: sasl as SASLOptions }),
    // One try for each address, and one more.
    retry: { retries: brokers.length, initialRetryTime: 50, maxRetryTime: 500 },
    ...client,
    brokers: [...brokers],
  }
}

function tlsOptions({ tls, ca, cert, key }: KafkaConnectionSettings): ConnectionOptions | undefined {
  if (!tls) return undefined
  return {
    ...(ca === undefined ? {} : { ca }),
    ...(cert === undefined || key === undefined ? {} : { cert, key }),
  }
}

/** KafkaJS bounds the time for a connection, and waits half a minute for the first answer on it. */
function expectAnswer(socket: Socket, limitMs: number): void {
  const giveUp = () => socket.destroy(new Error(`no answer within ${limitMs} ms`))
  const timer = setTimeout(giveUp, limitMs)
  socket.once('data', () => clearTimeout(timer)).once('close', () => clearTimeout(timer))
}

const keepAliveMs = 30_000

function defaultSocket({ host, port, ssl, onConnect }: Parameters<ISocketFactory>[0]): Socket {
  const socket = ssl
    ? connectTls({ host, port, ...(isIP(host) === 0 ? { servername: host } : {}), ...ssl }, onConnect)
    : connectTcp({ host, port }, onConnect)
  return socket.setNoDelay(true).setKeepAlive(true, keepAliveMs)
}
