import { type LocalServer, startLocalServer } from './local-server.ts'
import { findRedis } from './programs.ts'

export interface RedisServer extends LocalServer {
  readonly url: string
}

/**
 * The address of a Redis: WAYBILL_TEST_REDIS_URL, or one started for this test file. Tests that stop or configure the
 * server use {@link startRedis}. Guard with `describeWith('redis', …)`.
 */
export async function redisUrl(): Promise<string> {
  return process.env['WAYBILL_TEST_REDIS_URL'] ?? (await startRedis()).url
}

/**
 * A Redis of this test file's own on a free port of 127.0.0.1, with an append-only file in a temporary folder, so
 * that it has its data again after a restart.
 *
 * @param settings as in `redis.conf`, for example `{ maxmemory: '5mb' }`, made when the port is known
 */
export async function startRedis(
  settings: (port: string) => Record<string, string> = () => ({}),
): Promise<RedisServer> {
  const program = findRedis()
  if (program === undefined) throw new Error('redis-server is not installed')
  const server = await startLocalServer({
    prefix: 'waybill-redis-',
    program,
    args({ folder, port }) {
      const all = {
        bind: '127.0.0.1',
        port: String(port),
        dir: folder,
        save: '',
        appendonly: 'yes',
        appendfsync: 'everysec',
        ...settings(String(port)),
      }
      return Object.entries(all).flatMap(([name, value]) => [`--${name}`, value])
    },
    // Redis rewrites its command line to this.
    sign: ({ port }) => `127.0.0.1:${port}`,
    ready: /Ready to accept connections/,
  })
  return Object.assign(server, { url: `redis://127.0.0.1:${server.port}` })
}
