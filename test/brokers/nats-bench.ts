import { type NatsOptions, natsPublisher } from '../../src/brokers/nats.ts'
import type { Message, Publisher } from '../../src/publishing/publisher.ts'
import { type NatsStream, type StoredMessage, createStream } from '../support/nats-stream.ts'
import { type NatsServer, startNats } from '../support/nats.ts'
import { type TcpProxy, createProxy } from '../support/proxy.ts'
import { closeLater } from './publishing.ts'

/** The server of this test file, once {@link startBench} is done. */
export let server: NatsServer
/** Takes `outbox.>`. */
export let stream: NatsStream

/** Starts the server of this test file, and a stream `OUTBOX`: for `beforeAll`. */
export async function startBench(configuration?: (folder: string) => string): Promise<void> {
  server = await startNats(configuration)
  stream = await createStream(server.url, 'OUTBOX', ['outbox.>'])
}

/** What the stream holds of a message: nothing, one copy, or several. */
export async function stored(message: Message): Promise<readonly StoredMessage[]> {
  const all = await stream.messages()
  return all.filter(({ headers }) => headers['Nats-Msg-Id'] === message.messageId)
}

/** A publisher that is closed after the test. */
export async function nats(options: NatsOptions & { name?: string }): Promise<Publisher> {
  return closeLater(await natsPublisher(options))
}

/** A publisher with a network in between that a test can disturb. */
export async function natsThroughProxy(
  options: Omit<NatsOptions, 'url'> = {},
): Promise<{ publisher: Publisher; proxy: TcpProxy }> {
  const proxy = await createProxy(server.port)
  return { proxy, publisher: await nats({ ...options, url: `nats://127.0.0.1:${proxy.port}` }) }
}
