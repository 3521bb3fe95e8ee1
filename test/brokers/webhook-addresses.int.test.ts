import { describe, expect, it } from 'vitest'
import { testMessage } from '../../src/testing/test-message.ts'
import { createProxy } from '../support/proxy.ts'
import { type Receiver, startReceiver } from '../support/receiver.ts'
import { publish, publishOne } from './publishing.ts'
import { webhook } from './webhook-bench.ts'

describe('an address that a route gives', () => {
  const elsewhere = async (respond?: Parameters<typeof startReceiver>[0]): Promise<Receiver> =>
    startReceiver(respond)

  it.each(['127.0.0.1', 'localhost', '[::ffff:127.0.0.1]', '2130706433', '0x7f.1'])(
    'is not connected to when it is private: %s',
    async (host) => {
      const receiver = await elsewhere()
      const proxy = await createProxy(receiver.port)
      const publisher = webhook({ url: receiver.origin })
      const results = await publish(publisher, [
        testMessage({ url: `http://${host}:${proxy.port}/secret-path` }),
        testMessage(),
      ])
      expect(results).toMatchObject([
        {
          status: 'reject',
          error: { code: 'EVENT_UNDELIVERABLE', message: expect.stringContaining('not public') },
        },
        { status: 'published' },
      ])
      expect((results[0] as { error: Error }).error.message).not.toContain('secret-path')
      expect(proxy.accepted).toBe(0)
    },
  )

  it('may be private when that is allowed, and gets no configured headers of another origin', async () => {
    const [home, away] = [await elsewhere(), await elsewhere()]
    const publisher = webhook({
      url: home.origin,
      headers: { authorization: 'Bearer home' },
      secret: 'shared',
      allowPrivateAddresses: true,
    })
    const results = await publish(publisher, [
      testMessage({ url: `${away.origin}/tenant` }),
      testMessage({ url: `${home.origin}/other` }),
    ])
    expect(results).toMatchObject([{ status: 'published' }, { status: 'published' }])
    expect(away.requests[0]).toMatchObject({
      path: '/tenant',
      headers: { 'webhook-signature': expect.any(String) },
    })
    expect(away.requests[0]!.headers).not.toHaveProperty('authorization')
    expect(home.requests[0]).toMatchObject({ path: '/other', headers: { authorization: 'Bearer home' } })
  })

  it('is one of many hosts: what it answers is no word about the others', async () => {
    const busy = await elsewhere((_request, response) => {
      response.writeHead(503, { 'retry-after': '5' }).end()
    })
    const gone = await elsewhere()
    await gone.stop()
    const publisher = webhook({ url: busy.origin, allowPrivateAddresses: true })
    const results = await publish(publisher, [
      testMessage({ url: busy.origin }),
      testMessage({ url: gone.origin }),
    ])
    expect(results).toMatchObject([
      { status: 'retry', error: { code: 'PUBLISH_FAILED' }, afterMs: 5000 },
      { status: 'retry', error: { code: 'PUBLISH_TIMEOUT' } },
    ])
  })

  it.each(['', 'not a url', 'ftp://user:hunter2@x.test/', 'javascript:alert(1)'])(
    'makes its event undeliverable when it is none: %j',
    async (url) => {
      const receiver = await elsewhere()
      const result = await publishOne(webhook({ url: receiver.origin }), testMessage({ url }))
      expect(result).toMatchObject({ status: 'reject', error: { code: 'EVENT_UNDELIVERABLE' } })
      expect((result as { error: Error }).error.message).not.toContain('hunter2')
      expect(receiver.requests).toHaveLength(0)
    },
  )
})
