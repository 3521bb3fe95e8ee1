import { describe, expect, it } from 'vitest'
import { testMessage } from '../../src/testing/test-message.ts'
import { selfSignedCertificate } from '../support/certificate.ts'
import { createProxy } from '../support/proxy.ts'
import { startReceiver } from '../support/receiver.ts'
import { failure, publish, publishOne } from './publishing.ts'
import { webhook } from './webhook-bench.ts'

describe('a receiver that does not answer', () => {
  it('is away when no connection can be made', async () => {
    const receiver = await startReceiver()
    await receiver.stop()
    const publisher = webhook({ url: `${receiver.origin}/secret-path` })
    const error = await failure(publish(publisher, [testMessage(), testMessage()]))
    expect(error).toMatchObject({
      code: 'BROKER_UNAVAILABLE',
      message: expect.stringContaining('ECONNREFUSED'),
    })
    expect(error.message).not.toContain('secret-path')
    await expect(publisher.checkHealth!({ signal: AbortSignal.timeout(5000) })).rejects.toMatchObject({
      code: 'BROKER_UNAVAILABLE',
    })
    await receiver.start()
    await publisher.checkHealth!({ signal: AbortSignal.timeout(5000) })
    expect(await publishOne(publisher)).toMatchObject({ status: 'published' })
  })

  it('is away when it does not speak TLS, which is told without the text of OpenSSL', async () => {
    const receiver = await startReceiver()
    const publisher = webhook({ url: receiver.origin.replace('http:', 'https:') })
    expect(await failure(publish(publisher, [testMessage()]))).toMatchObject({
      code: 'BROKER_UNAVAILABLE',
      message: expect.stringMatching(
        /^POST to https:\/\/127\.0\.0\.1:\d+ failed: the TLS handshake failed \([a-z ]+\): does this port speak TLS\?$/,
      ),
    })
  })

  it('is away when its name does not resolve', async () => {
    // A part of a name may have 63 characters: no resolver needs to be asked.
    const error = await failure(publish(webhook({ url: `http://${'x'.repeat(64)}.test/` }), [testMessage()]))
    expect(error).toMatchObject({ code: 'BROKER_UNAVAILABLE' })
  })

  it('costs only the message that it lets wait too long', async () => {
    const receiver = await startReceiver(({ body }) => (body === '"hang"' ? undefined : 200))
    const publisher = webhook({ url: receiver.origin, timeoutMs: 200 })
    const results = await publish(publisher, [testMessage(), testMessage({ body: '"hang"' }), testMessage()])
    expect(results).toMatchObject([
      { status: 'published' },
      {
        status: 'retry',
        error: { code: 'PUBLISH_TIMEOUT', message: expect.stringContaining('no answer within 200 ms') },
      },
      { status: 'published' },
    ])
  })

  it('costs only the message whose connection it resets', async () => {
    const receiver = await startReceiver(({ body }, response) => {
      if (body !== '"reset"') return 200
      response.socket!.resetAndDestroy()
    })
    const publisher = webhook({ url: receiver.origin })
    const results = await publish(publisher, [testMessage(), testMessage({ body: '"reset"' }), testMessage()])
    expect(results).toMatchObject([
      { status: 'published' },
      { status: 'retry', error: { code: 'PUBLISH_TIMEOUT' } },
      { status: 'published' },
    ])
  })

  it('is tried again on a new connection after a black hole', async () => {
    const receiver = await startReceiver()
    const proxy = await createProxy(receiver.port)
    const publisher = webhook({ url: `http://127.0.0.1:${proxy.port}`, timeoutMs: 200 })
    await publishOne(publisher)
    proxy.blackhole()
    expect(await publishOne(publisher)).toMatchObject({ status: 'retry', error: { code: 'PUBLISH_TIMEOUT' } })
    proxy.blackhole(false)
    expect(await publishOne(publisher)).toMatchObject({ status: 'published' })
    expect(receiver.requests).toHaveLength(2)
  })

  it('does not keep a call that is given up', async () => {
    const receiver = await startReceiver(() => undefined)
    const publisher = webhook({ url: receiver.origin, connections: 2 })
    const controller = new AbortController()
    const call = publisher.publish([testMessage(), testMessage(), testMessage()], {
      signal: controller.signal,
    })
    await receiver.waitFor(2)
    controller.abort()
    expect(await call).toMatchObject([
      { status: 'retry', error: { code: 'PUBLISH_TIMEOUT' } },
      { status: 'retry', error: { code: 'PUBLISH_TIMEOUT' } },
      { status: 'retry', error: { code: 'PUBLISH_TIMEOUT', message: expect.stringContaining('not sent') } },
    ])
    expect(receiver.requests).toHaveLength(2)
  })
})

describe('connections', () => {
  it('are as many as configured, over all calls', async () => {
    let active = 0
    let most = 0
    const receiver = await startReceiver(async () => {
      most = Math.max(most, ++active)
      // Held until three are here together; a fourth would be let in by then, too.
      await receiver.waitFor(3)
      await new Promise(setImmediate)
      active--
      return 200
    })
    const proxy = await createProxy(receiver.port)
    const publisher = webhook({ url: `http://127.0.0.1:${proxy.port}`, connections: 3 })
    const calls = Array.from({ length: 4 }, () =>
      publish(
        publisher,
        Array.from({ length: 10 }, () => testMessage()),
      ),
    )
    const results = (await Promise.all(calls)).flat()
    expect(results.every(({ status }) => status === 'published')).toBe(true)
    expect(most).toBe(3)
    expect(proxy.accepted).toBe(3)
    expect(publisher.capabilities).toEqual({ ordering: 'per-call', deduplication: false, maxBatchSize: 3 })
  })
})

describe('https', () => {
  it('needs a certificate that is trusted', async () => {
    const tls = selfSignedCertificate()
    const receiver = await startReceiver(() => 200, tls)
    const error = await failure(publish(webhook({ url: receiver.origin }), [testMessage()]))
    expect(error).toMatchObject({ code: 'BROKER_UNAVAILABLE', message: expect.stringMatching(/self.signed/) })
    expect(await publishOne(webhook({ url: receiver.origin, ca: tls.cert }))).toMatchObject({
      status: 'published',
    })
    expect(receiver.requests).toHaveLength(1)
  })
})

describe('closing', () => {
  it('ends what is under way, and nothing more is sent', async () => {
    const receiver = await startReceiver(() => undefined)
    const publisher = webhook({ url: receiver.origin })
    const call = publish(publisher, [testMessage()])
    await receiver.waitFor(1)
    await publisher.close()
    expect(await call).toMatchObject([{ status: 'retry', error: { code: 'PUBLISH_TIMEOUT' } }])
    expect(await failure(publish(publisher, [testMessage()]))).toMatchObject({ code: 'BROKER_UNAVAILABLE' })
    expect(receiver.requests).toHaveLength(1)
  })
})
