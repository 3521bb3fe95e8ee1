import { describe, expect, it } from 'vitest'
import { bearer, closed, open, secret, send } from './admin-bench.ts'

describe('who may ask', () => {
  it('needs the token for the API and the metrics where one is set, and never for health', async () => {
    for (const path of ['/api/v1/status', '/api/v1/events', '/api/v1/nothing', '/metrics']) {
      for (const headers of [
        {},
        { authorization: 'Bearer wrong' },
        { authorization: `Basic ${secret}` },
        { authorization: secret },
        { authorization: `Bearer ${secret}x` },
      ]) {
        const answer = await send(closed, path, { headers })
        expect(answer).toMatchObject({ status: 401, json: { error: { code: 'UNAUTHORIZED' } } })
        expect(answer.headers['www-authenticate']).toBe('Bearer')
        expect(answer.text).not.toContain(secret)
      }
    }
    expect((await send(closed, '/api/v1/status', { headers: bearer })).status).toBe(200)
    expect((await send(closed, '/metrics', { headers: bearer })).status).toBe(200)
    expect((await send(closed, '/livez')).status).toBe(200)
    expect((await send(closed, '/readyz')).status).toBe(200)
  })

  it.each(['evil.example', 'evil.example:4747', '127.0.0.1.evil.example', '192.0.2.1'])(
    'does not answer to the name %j without a token',
    async (host) => {
      for (const path of ['/', '/api/v1/status', '/metrics']) {
        expect(await send(open, path, { headers: { host } })).toMatchObject({
          status: 403,
          json: { error: { code: 'UNAUTHORIZED', message: expect.stringMatching(/localhost/) } },
        })
      }
    },
  )

  it.each(['localhost', 'LOCALHOST:4747', '127.0.0.1:80', '[::1]:4747'])(
    'answers to the name %j',
    async (host) => {
      expect((await send(open, '/api/v1/status', { headers: { host } })).status).toBe(200)
    },
  )

  it('answers to any name with a token', async () => {
    const headers = { ...bearer, host: 'relay.example' }
    expect((await send(closed, '/api/v1/status', { headers })).status).toBe(200)
  })

  it('does not say what a page of another origin may read', async () => {
    const answer = await send(open, '/api/v1/status', { headers: { origin: 'http://evil.example' } })
    expect(answer.headers).not.toHaveProperty('access-control-allow-origin')
  })
})
