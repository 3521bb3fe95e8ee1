import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type LocalServer, startLocalServer } from './local-server.ts'
import { findNats } from './programs.ts'

export interface NatsServer extends LocalServer {
  readonly url: string
}

/**
 * The address of a NATS server with JetStream: WAYBILL_TEST_NATS_URL, or one started for this test file. Tests that
 * stop or configure the server use {@link startNats}. Guard with `describeWith('nats', …)`, those with 'nats-server'.
 */
export async function natsUrl(): Promise<string> {
  return process.env['WAYBILL_TEST_NATS_URL'] ?? (await startNats()).url
}

/**
 * A NATS server of this test file's own, with JetStream, on a free port of 127.0.0.1, its data in a temporary folder.
 *
 * @param configuration further text of its configuration file, made when the folder is known
 */
export async function startNats(configuration: (folder: string) => string = () => ''): Promise<NatsServer> {
  const program = findNats()
  if (program === undefined) throw new Error('nats-server is not installed')
  const server = await startLocalServer({
    prefix: 'waybill-nats-',
    program,
    args({ folder, port }) {
      const file = join(folder, 'nats.conf')
      writeFileSync(file, `jetstream { store_dir: "${join(folder, 'data')}" }\n${configuration(folder)}\n`)
      return ['--addr', '127.0.0.1', '--port', String(port), '--config', file]
    },
    sign: ({ folder }) => folder,
    ready: /Server is ready/,
  })
  return Object.assign(server, { url: `nats://127.0.0.1:${server.port}` })
}
