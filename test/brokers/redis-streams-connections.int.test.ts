import { once } from 'node:events'
import { rmSync, writeFileSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import { join } from 'node:path'
import { beforeAll, expect, it } from 'vitest'
import { makeFolder } from '../../scripts/embedded-postgres/leftovers.ts'
import { testMessage } from '../../src/testing/test-message.ts'
import { selfSignedCertificate } from '../support/certificate.ts'
import { atEndOfFile } from '../support/cleanups.ts'
import { readStream } from '../support/redis-stream.ts'
import { startRedis } from '../support/redis.ts'
import { describeWith } from '../support/services.ts'
import { testSessions } from './connection-checks.ts'
import { failure, publish, publishOne } from './publishing.ts'
import { newStream, redis, server, startBench, streams, streamsThroughProxy } from './redis-streams-bench.ts'

describeWith('redis-server', 'the connection to Redis', () => {
  beforeAll(() => startBench())

  testSessions({ port: () => server.port, create: (port) => streams({ url: `redis://127.0.0.1:${port}` }) })

  it('may be cut while messages are under way: what was confirmed is there, and the next call works', async () => {
    const topic = newStream()
    const { publisher, proxy } = await streamsThroughProxy()
    await publishOne(publisher)
    proxy.delay(20)
    const calls = Array.from({ length: 5 }, () => Array.from({ length: 20 }, () => testMessage({ topic })))
    const outcomes = Promise.all(calls.map((messages) => publish(publisher, messages)))
    await new Promise(setImmediate)
    proxy.reset()
    const results = (await outcomes).flat()
    expect(results.some(({ status }) => status === 'retry')).toBe(true)
    const ids = new Set((await readStream(redis, topic)()).map(({ headers }) => headers['id']))
    for (const [index, result] of results.entries()) {
      if (result.status === 'published') expect(ids).toContain(calls.flat()[index]!.eventId)
      else expect(result).toMatchObject({ status: 'retry', error: { code: 'PUBLISH_TIMEOUT' } })
    }
    proxy.delay(0)
    expect(await publishOne(publisher)).toMatchObject({ status: 'published' })
    expect(proxy.accepted).toBe(2)
  })

  it('that is lost under a call, and cannot be made again, is an outage', async () => {
    const { publisher, proxy } = await streamsThroughProxy()
    await publishOne(publisher)
    proxy.delay(200)
    const call = publish(publisher, [testMessage(), testMessage()])
    await new Promise(setImmediate)
    await proxy.down()
    const refused = { code: 'BROKER_UNAVAILABLE', message: expect.stringContaining('ECONNREFUSED') }
    expect(await call).toMatchObject([
      { status: 'retry', error: refused },
      { status: 'retry', error: refused },
    ])
  })

  it('that cannot be made is an outage, at once, and no message waits for it', async () => {
    const { proxy } = await streamsThroughProxy()
    await proxy.down()
    const publisher = await streams({ url: `redis://user:hunter2@127.0.0.1:${proxy.port}` })
    const error = await failure(publish(publisher, [testMessage(), testMessage()], 60_000))
    expect(error).toMatchObject({ code: 'BROKER_UNAVAILABLE' })
    expect(error.message).toMatch(/^cannot connect to Redis at 127\.0\.0\.1:\d+: connect ECONNREFUSED/)
    expect(error.message).not.toContain('hunter2')
  })

  it('that is made and never answered is given up, and leaves no socket', async () => {
    const silent = createServer((socket) => socket.resume()).listen(0, '127.0.0.1')
    await once(silent, 'listening')
    const { port } = silent.address() as AddressInfo
    const publisher = await streams({ url: `redis://127.0.0.1:${port}`, connectTimeoutMs: 100 })
    for (let probe = 0; probe < 3; probe++) {
      expect(await failure(publishOne(publisher))).toMatchObject({
        code: 'BROKER_UNAVAILABLE',
        message: `cannot connect to Redis at 127.0.0.1:${port}: no answer within 100 ms`,
      })
    }
    silent.close()
    await once(silent, 'close', { signal: AbortSignal.timeout(2000) })
  })

  it('ends with the server, and comes back with it', async () => {
    const topic = newStream()
    const publisher = await streams({ url: server.url })
    await publisher.connect!({ signal: AbortSignal.timeout(5000) })
    expect(await publishOne(publisher, testMessage({ topic }))).toMatchObject({ status: 'published' })
    await server.kill('SIGTERM')
    expect(await failure(publishOne(publisher))).toMatchObject({ code: 'BROKER_UNAVAILABLE' })
    await server.restart()
    expect(await publishOne(publisher, testMessage({ topic }))).toMatchObject({ status: 'published' })
    expect(await redis.xlen(topic)).toBe(2)
  })

  it('may use TLS, and trusts the given certificates alone', async () => {
    const { key, cert } = selfSignedCertificate()
    const folder = makeFolder('waybill-redis-tls-')
    atEndOfFile(() => rmSync(folder, { recursive: true, force: true }))
    for (const [name, text] of Object.entries({ key, cert })) writeFileSync(join(folder, `${name}.pem`), text)
    const { port } = await startRedis((tlsPort) => ({
      ...{ 'tls-cert-file': join(folder, 'cert.pem'), 'tls-key-file': join(folder, 'key.pem') },
      ...{ 'tls-ca-cert-file': join(folder, 'cert.pem'), 'tls-auth-clients': 'no', 'tls-replication': 'no' },
      ...{ 'tls-port': tlsPort, port: '0' },
    }))
    const healthy = async (options: Parameters<typeof streams>[0]) =>
      (await streams(options)).connect!({ signal: AbortSignal.timeout(5000) })
    await healthy({ url: `rediss://127.0.0.1:${port}`, ca: cert })
    await healthy({ url: `rediss://localhost:${port}`, ca: cert })
    expect(await failure(healthy({ url: `rediss://127.0.0.1:${port}` }))).toMatchObject({
      code: 'BROKER_UNAVAILABLE',
      message: expect.stringContaining('self-signed certificate'),
    })
    expect(await failure(healthy({ url: `redis://127.0.0.1:${port}`, connectTimeoutMs: 500 }))).toMatchObject(
      {
        code: 'BROKER_UNAVAILABLE',
      },
    )
  })
})
