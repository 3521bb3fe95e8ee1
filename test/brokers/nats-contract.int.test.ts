import { randomUUID } from 'node:crypto'
import { afterAll, describe, it } from 'vitest'
import { natsPublisher } from '../../src/brokers/nats.ts'
import { testPublisher } from '../../src/testing/publisher-contract.ts'
import { startNats } from '../support/nats.ts'
import { createStream } from '../support/nats-stream.ts'
import { createProxy } from '../support/proxy.ts'
import { describeWith } from '../support/services.ts'

/** A publisher that knows the limit of its server already: the suite asks for it before it publishes. */
async function connected(options: { url: string; stream?: string }) {
  const publisher = await natsPublisher(options)
  await publisher.connect!({ signal: AbortSignal.timeout(5000) }).catch(() => undefined)
  return publisher
}

describeWith('nats', 'with NATS', () => {
  const given = process.env['WAYBILL_TEST_NATS_URL']
  testPublisher(
    {
      name: 'nats',
      features: {
        ordering: 'per-call',
        headers: true,
        oversize: true,
        unencodableHeaders: { 'with space': 'x' },
        cut: true,
        restart: given === undefined,
        misaddressed: true,
      },
      async setUp() {
        const server = given === undefined ? await startNats() : undefined
        const serverUrl = new URL(server?.url ?? given!)
        const proxy = await createProxy(Number(serverUrl.port || 4222))
        const url = serverUrl.href.replace(serverUrl.host, `127.0.0.1:${proxy.port}`)
        const name = `contract-${randomUUID()}`
        const stream = await createStream(serverUrl.href, name, ['outbox.event.contract'])
        return {
          create: () => connected({ url }),
          received: async () =>
            (await stream.messages()).map(({ headers, body }) => ({
              messageId: headers['Nats-Msg-Id']!,
              eventId: headers['id']!,
              headers,
              body,
            })),
          cut: async () => proxy.reset(),
          stop: async () => server?.kill('SIGTERM'),
          start: async () => server?.restart(),
          misaddressed: () => connected({ url, stream: 'missing' }),
          async tearDown() {
            await stream.manager.streams.delete(name)
            await stream.close()
            await proxy.close()
            await server?.stop()
          },
        }
      },
    },
    { describe, it, afterAll },
  )
})
