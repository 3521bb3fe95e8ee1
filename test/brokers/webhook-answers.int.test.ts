import { describe, expect, it } from 'vitest'
import { startReceiver } from '../support/receiver.ts'
import { publishOne } from './publishing.ts'
import { webhook } from './webhook-bench.ts'

describe('what a receiver answers', () => {
  it.each([
    [200, 'published', undefined],
    [299, 'published', undefined],
    [302, 'retry', 'BROKER_UNAVAILABLE'],
    [400, 'reject', 'EVENT_REJECTED'],
    [401, 'retry', 'BROKER_UNAVAILABLE'],
    [404, 'reject', 'EVENT_REJECTED'],
    [409, 'retry', 'PUBLISH_FAILED'],
    [410, 'reject', 'EVENT_REJECTED'],
    [429, 'retry', 'BROKER_UNAVAILABLE'],
    [500, 'retry', 'PUBLISH_FAILED'],
    [503, 'retry', 'BROKER_UNAVAILABLE'],
  ])('%i is %s %s', async (code, status, errorCode) => {
    const receiver = await startReceiver(() => code)
    const result = await publishOne(webhook({ url: receiver.origin }))
    expect(result).toMatchObject(
      errorCode === undefined ? { status, receipt: `http:${code}` } : { status, error: { code: errorCode } },
    )
    if (status === 'reject') expect(result).toMatchObject({ error: { details: { answer: `HTTP ${code}` } } })
  })

  it('may ask for a pause, in seconds or until a time', async () => {
    const receiver = await startReceiver((_request, response) => {
      response.writeHead(503, { 'retry-after': '7' }).end()
    })
    const publisher = webhook({ url: receiver.origin })
    expect(await publishOne(publisher)).toMatchObject({
      afterMs: 7000,
      error: { details: { afterMs: 7000 } },
    })
    receiver.respond = (_request, response) => {
      response.writeHead(500, { 'retry-after': new Date(Date.now() + 60_000).toUTCString() }).end()
    }
    const result = await publishOne(publisher)
    expect(result).toMatchObject({ status: 'retry', error: { code: 'PUBLISH_FAILED' } })
    expect((result as { afterMs: number }).afterMs).toBeGreaterThan(55_000)
    expect((result as { afterMs: number }).afterMs).toBeLessThanOrEqual(60_000)
  })

  it('can be given another meaning by status, and by code before that', async () => {
    const receiver = await startReceiver((_request, response) => {
      response.writeHead(409).end('already there')
    })
    expect(
      await publishOne(webhook({ url: receiver.origin, answers: { '409': 'published' } })),
    ).toMatchObject({
      status: 'published',
    })
    const publisher = webhook({
      url: receiver.origin,
      answers: { '409': 'published' },
      classify: ({ status, text }) => (status === 409 && text === 'already there' ? 'reject' : undefined),
    })
    expect(await publishOne(publisher)).toMatchObject({ status: 'reject' })
  })

  it('is shown shortly, on one line, and never with the secrets that were sent', async () => {
    const receiver = await startReceiver(({ headers }, response) => {
      response.writeHead(400).end(`bad\n  key ${headers['authorization']} ${'x'.repeat(10_000)}`)
    })
    const publisher = webhook({
      url: `${receiver.origin}/a-secret-path`,
      headers: { authorization: 'Bearer hunter2' },
    })
    const result = await publishOne(publisher)
    const { message } = (result as { error: Error }).error
    expect(message).toMatch(new RegExp(`^${receiver.origin} answered 400: bad key \\*\\*\\* x+…$`))
    expect(message.length).toBeLessThan(300)
  })

  it('is not followed when it is a redirect', async () => {
    const receiver = await startReceiver(({ path }, response) => {
      if (path === '/new') return 200
      response.writeHead(307, { location: '/new' }).end()
    })
    expect(await publishOne(webhook({ url: `${receiver.origin}/old` }))).toMatchObject({
      status: 'retry',
      error: { code: 'BROKER_UNAVAILABLE', message: expect.stringContaining('redirects are not followed') },
    })
    expect(receiver.requests.map(({ path }) => path)).toEqual(['/old'])
  })

  it('may have a body without end: its status counts', async () => {
    const receiver = await startReceiver((_request, response) => {
      response.writeHead(200)
      const more = () => {
        while (!response.destroyed && response.write('x'.repeat(10_000)));
        if (!response.destroyed) response.once('drain', more)
      }
      more()
    })
    const publisher = webhook({ url: receiver.origin })
    const started = performance.now()
    expect(await publishOne(publisher)).toMatchObject({ status: 'published' })
    expect(await publishOne(publisher)).toMatchObject({ status: 'published' })
    expect(performance.now() - started).toBeLessThan(5000)
  })

  it('may have a body that never ends: its status counts when the time is up', async () => {
    const receiver = await startReceiver((_request, response) => {
      response.writeHead(422).write('and then')
    })
    expect(await publishOne(webhook({ url: receiver.origin, timeoutMs: 100 }))).toMatchObject({
      status: 'reject',
      error: { message: expect.stringMatching(/422: and then$/) },
    })
  })
})
