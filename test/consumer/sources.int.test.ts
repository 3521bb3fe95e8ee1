import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, describe, it } from 'vitest'
import { type WebhookSource, webhookPublisher, webhookSource } from '../../src/brokers/webhook.ts'
import { handlerPublisher } from '../../src/brokers/handler.ts'
import { type InProcessSource, inProcessSource } from '../../src/consumer/index.ts'
import type { Message, Publisher } from '../../src/publishing/publisher.ts'
import { testSource } from '../../src/testing/source-contract.ts'

const runner = { describe, it, afterAll }
const features = { ordering: 'aggregate', holding: false, headers: true, cut: false, restart: false } as const
const secret = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'

/** Sends as a relay does: in order for each aggregate, again after a failure, until it is told to end. */
function asRelay(publisher: Publisher) {
  const tails = new Map<string, Promise<void>>()
  const ending = new AbortController()
  async function bring(message: Message): Promise<void> {
    while (!ending.signal.aborted) {
      const [result] = await publisher
        .publish([message], { signal: ending.signal })
        .catch(() => [{ status: 'retry' as const }])
      if (result?.status === 'published') return
      await new Promise((resolve) => setTimeout(resolve, 10))
    }
  }
  return {
    async send(messages: readonly Message[]): Promise<void> {
      for (const message of messages) {
        const before = tails.get(message.aggregateId) ?? Promise.resolve()
        tails.set(
          message.aggregateId,
          before.then(() => bring(message)),
        )
      }
    },
    async end(): Promise<void> {
      ending.abort()
      await Promise.all(tails.values())
      await publisher.close()
    },
  }
}

testSource(
  {
    name: 'in-process',
    features,
    async setUp() {
      let source: InProcessSource | undefined
      const relay = asRelay(handlerPublisher((message) => source!.handle(message)))
      return {
        create: () => (source = inProcessSource()),
        send: relay.send,
        tearDown: relay.end,
      }
    },
  },
  runner,
)

testSource(
  {
    name: 'webhook',
    features,
    async setUp() {
      let source: WebhookSource | undefined
      const server = createServer((request, response) => source!.node(request, response))
      await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
      const { port } = server.address() as AddressInfo
      const relay = asRelay(webhookPublisher({ url: `http://127.0.0.1:${port}/`, secret }))
      return {
        create: () => (source = webhookSource({ secret })),
        send: relay.send,
        async tearDown() {
          await relay.end()
          server.closeAllConnections()
          await new Promise((resolve) => server.close(resolve))
        },
      }
    },
  },
  runner,
)
