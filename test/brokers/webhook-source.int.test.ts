import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Webhook } from 'standardwebhooks'
import { describe, expect, test } from 'vitest'
import { type WebhookSourceOptions, webhookSource } from '../../src/brokers/webhook.ts'
import { decodeDelivery } from '../../src/publishing/decoder.ts'
import { brokerUnavailable, publishFailed } from '../../src/publishing/publisher.ts'
import type { Delivery, DeliveryAnswer } from '../../src/publishing/source.ts'
import { atEndOfFile } from '../support/cleanups.ts'

const secret = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'
const other = 'whsec_bm90IHRoZSBzYW1lIHNlY3JldCBhdCBhbGw='
const body = '{"n": 1}'
const done: DeliveryAnswer = { status: 'done' }

async function start(options: Partial<WebhookSourceOptions> = {}, answer: DeliveryAnswer = done) {
  const source = webhookSource({ secret, ...options })
  const deliveries: Delivery[] = []
  const receive = async (delivery: Delivery) => {
    deliveries.push(delivery)
    return answer
  }
  await source.start(receive, { observer: { down: () => undefined, up: () => undefined } })
  const server = createServer((request: IncomingMessage, response: ServerResponse) =>
    source.node(request, response),
  )
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  atEndOfFile(async () => {
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
  })
  const { port } = server.address() as AddressInfo
  return { source, deliveries, url: `http://127.0.0.1:${port}/` }
}

/** Signed by an implementation that is not ours. */
function signed(at = new Date(), key = secret, id = 'm-1'): Record<string, string> {
  return {
    'content-type': 'application/json',
    'webhook-id': id,
    'webhook-timestamp': String(Math.floor(at.getTime() / 1000)),
    'webhook-signature': new Webhook(key).sign(id, at, body),
    'x-waybill-event-id': 'e-1',
    'x-waybill-event-type': 'note.published',
    'x-waybill-aggregate-type': 'note',
    'x-waybill-aggregate-id': 'Zo%C3%AB',
  }
}
const post = (url: string, headers: Record<string, string>, text = body) =>
  fetch(url, { method: 'POST', headers, body: text })

test('takes a genuine request and answers when it is done', async () => {
  const { url, deliveries } = await start()
  const response = await post(url, signed())
  expect(response.status).toBe(204)
  expect(decodeDelivery(deliveries[0]!)).toMatchObject({ id: 'e-1', aggregateId: 'Zoë', body, headers: {} })
  expect(deliveries[0]).toMatchObject({ origin: 'webhook:m-1' })
})

test('takes the same by fetch', async () => {
  const { source, deliveries } = await start()
  const response = await source.fetch(new Request('http://x/', { method: 'POST', headers: signed(), body }))
  expect(response.status).toBe(204)
  expect(deliveries).toHaveLength(1)
  expect((await source.fetch(new Request('http://x/'))).status).toBe(405)
})

test('does not answer before the commit', async () => {
  let commit!: (answer: DeliveryAnswer) => void
  const { url, deliveries } = await start({}, new Promise((resolve) => (commit = resolve)) as never)
  let answered = false
  const response = post(url, signed()).then((it) => {
    answered = true
    return it
  })
  await expect.poll(() => deliveries.length, { timeout: 10_000 }).toBe(1)
  // The server has answered others meanwhile.
  for (let i = 0; i < 5; i++) expect((await fetch(url)).status).toBe(405)
  expect(answered).toBe(false)
  commit(done)
  expect((await response).status).toBe(204)
})

describe('refuses with 401 and hands nothing over', () => {
  const minutesAgo = (n: number) => new Date(Date.now() - n * 60_000)
  test.each<[what: string, headers: Record<string, string>, text?: string]>([
    ['a request without signature', { 'webhook-id': 'm-1' }],
    ['a forged signature', signed(new Date(), other)],
    ['another body than the signed one', signed(), '{"n": 2}'],
    ['another id than the signed one', { ...signed(), 'webhook-id': 'm-2' }],
    ['a stale request', signed(minutesAgo(6))],
    ['a request from the future', signed(minutesAgo(-6))],
    [
      'another time than the signed one',
      { ...signed(minutesAgo(60)), 'webhook-timestamp': signed()['webhook-timestamp']! },
    ],
    [
      'a signature of another version',
      { ...signed(), 'webhook-signature': signed()['webhook-signature']!.replace('v1', 'v2') },
    ],
    ['a time that is none', { ...signed(), 'webhook-timestamp': 'now' }],
  ])('%s', async (_what, headers, text) => {
    const { url, deliveries } = await start()
    expect((await post(url, headers, text)).status).toBe(401)
    expect(deliveries).toEqual([])
  })
})

test('takes any of several secrets and of several signatures', async () => {
  const { url } = await start({ secret: [other, secret] })
  expect((await post(url, signed())).status).toBe(204)
  const both = { ...signed(), 'webhook-signature': `v1,AAAA ${signed()['webhook-signature']}` }
  expect((await post(url, both)).status).toBe(204)
})

test('takes everything where it was told to', async () => {
  const { url } = await start({ secret: null })
  expect((await post(url, {})).status).toBe(204)
})

test('refuses a body that is too large, and what is no POST', async () => {
  const { url, deliveries } = await start({ maxBodyBytes: 5 })
  expect((await post(url, signed())).status).toBe(413)
  expect((await fetch(url)).status).toBe(405)
  expect(deliveries).toEqual([])
})

test('tells a failure of the handler from a consumer that is not at work', async () => {
  const failed = await start({}, { status: 'again', afterMs: 5_000, error: publishFailed('no') })
  const response = await post(failed.url, signed())
  expect([response.status, response.headers.get('retry-after')]).toEqual([500, null])
  const away = await start({}, { status: 'again', afterMs: 1_500, error: brokerUnavailable('away') })
  const notNow = await post(away.url, signed())
  expect([notNow.status, notNow.headers.get('retry-after')]).toEqual([503, '2'])
  await away.source.stop({ graceMs: 100 })
  expect((await post(away.url, signed())).status).toBe(503)
})

test.each([[{ secret: undefined as never }], [{ secret: 'whsec_%%%' }], [{ toleranceSeconds: 0 }]])(
  'refuses options that do not fit, without a secret in the message: %j',
  (options) => {
    expect(() => webhookSource({ secret, ...options })).toThrow(/expected webhook\.|missing/)
    try {
      webhookSource({ secret, ...options })
    } catch (error) {
      expect((error as Error).message).not.toContain('%%%')
    }
  },
)
