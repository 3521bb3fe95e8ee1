import type { Redis, RedisOptions } from 'ioredis'
import type { RedisConnectionSettings } from '../redis-streams-options.ts'
import type { Connection } from '../sessions.ts'

/** The constructor of `ioredis`, which is loaded only when it is used. */
export type RedisClass = new (options: RedisOptions) => Redis

export interface RedisConnection extends Connection {
  readonly redis: Redis
}

/**
 * One connection that queues nothing while the server is away, tries nothing again, and is never opened again: by
 * default the client keeps commands for ever.
 */
export function openRedis(
  Redis: RedisClass,
  name: string,
  settings: RedisConnectionSettings,
  further: RedisOptions = {},
): RedisConnection {
  const redis = new Redis({ ...address(settings), ...behaviour(name, settings.connectTimeoutMs), ...further })
  let ended = false
  let problem: Error | undefined
  redis.on('error', (error: Error) => {
    problem ??= error
    // Also when the client would go on: after a database that could not be selected it would write to another one.
    void destroy()
  })
  redis.on('end', () => (ended = true))

  /** That this user may not ping is an answer, too. */
  async function ping(): Promise<void> {
    try {
      await redis.ping()
    } catch (error) {
      if (!(error instanceof Error && error.message.startsWith('NOPERM'))) throw error
    }
  }

  async function connect(): Promise<void> {
    await redis.connect()
    await ping()
    if (ended) throw new Error('the connection was closed')
  }

  async function destroy(): Promise<void> {
    ended = true
    redis.disconnect()
  }

  async function open(): Promise<void> {
    // The client's own limit ends with the connection of the socket.
    const limit = setTimeout(() => {
      problem ??= new Error(`no answer within ${settings.connectTimeoutMs} ms`)
      void destroy()
    }, settings.connectTimeoutMs)
    try {
      await connect()
    } catch (error) {
      void destroy()
      throw problem ?? error
    } finally {
      clearTimeout(limit)
    }
  }

  return {
    redis,
    ready: open(),
    get alive() {
      // Its events come later than the errors of the commands; before both the server hangs up.
      if (ended || redis.status === 'close' || redis.status === 'end') return false
      return redis.status !== 'ready' || redis.stream.writable
    },
    ping,
    destroy,
  }
}

function address({ url, ca }: RedisConnectionSettings): RedisOptions {
  const { protocol, hostname, port, username, password, pathname } = new URL(url)
  const host = hostname.replace(/^\[(.*)\]$/, '$1')
  return {
    host,
    port: Number(port || 6379),
    db: Number(pathname.slice(1)),
    ...(username === '' ? {} : { username: decodeURIComponent(username) }),
    ...(password === '' ? {} : { password: decodeURIComponent(password) }),
    ...(protocol === 'rediss:' || ca !== undefined ? { tls: ca === undefined ? {} : { ca } } : {}),
  }
}

function behaviour(name: string, connectTimeoutMs: number): RedisOptions {
  return {
    // Names of clients have no spaces.
    connectionName: `waybill-${name.replaceAll(/[^\x21-\x7e]/g, '_')}`,
    // The older one: it is enough, and the same in every version of the client.
    protocol: 2,
    lazyConnect: true,
    connectTimeout: connectTimeoutMs,
    // After that what still stands is cut off: nothing is under way any more that anybody waits for.
    disconnectTimeout: 1,
    retryStrategy: () => null,
    enableOfflineQueue: false,
    enableReadyCheck: false,
    autoResendUnfulfilledCommands: false,
  }
}
