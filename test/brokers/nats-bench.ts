import { afterEach, expect } from 'vitest'
import { type NatsOptions, natsPublisher } from '../../src/brokers/nats.ts'
import type { Message, Publisher, PublishResult } from '../../src/publishing/publisher.ts'
import { testMessage } from '../../src/testing/test-message.ts'
import { type NatsStream, type StoredMessage, createStream } from '../support/nats-stream.ts'
import { type NatsServer, startNats } from '../support/nats.ts'
import { type TcpProxy, createProxy } from '../support/proxy.ts'

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

const publishers: Publisher[] = []
afterEach(async () => {
  await Promise.all(publishers.splice(0).map((publisher) => publisher.close()))
})

/** A publisher that is closed after the test. */
export async function nats(options: NatsOptions & { name?: string }): Promise<Publisher> {
  const publisher = await natsPublisher(options)
  publishers.push(publisher)
  return publisher
}

/** A publisher with a network in between that a test can disturb. */
export async function natsThroughProxy(
  options: Omit<NatsOptions, 'url'> = {},
): Promise<{ publisher: Publisher; proxy: TcpProxy }> {
  const proxy = await createProxy(server.port)
  return { proxy, publisher: await nats({ ...options, url: `nats://127.0.0.1:${proxy.port}` }) }
}

export const publish = (publisher: Publisher, messages: readonly Message[], ms = 10_000) =>
  publisher.publish(messages, { signal: AbortSignal.timeout(ms) })

export async function publishOne(
  publisher: Publisher,
  message = testMessage(),
  ms?: number,
): Promise<PublishResult> {
  const [result] = await publish(publisher, [message], ms)
  return result!
}

/** What a promise was rejected with. */
export const failure = (promise: Promise<unknown>): Promise<Error> =>
  promise.then(
    () => expect.unreachable('expected a rejection'),
    (error: Error) => error,
  )
