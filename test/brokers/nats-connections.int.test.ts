import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import { join } from 'node:path'
import { beforeAll, expect, it } from 'vitest'
import { testMessage } from '../../src/testing/test-message.ts'
import { selfSignedCertificate } from '../support/certificate.ts'
import { createNatsCredentials } from '../support/nats-credentials.ts'
import { startNats } from '../support/nats.ts'
import { createProxy } from '../support/proxy.ts'
import { describeWith } from '../support/services.ts'
import { testSessions } from './connection-checks.ts'
import { nats, natsThroughProxy, server, startBench, stored, stream } from './nats-bench.ts'
import { failure, publish, publishOne } from './publishing.ts'

const connectsSoon = { signal: AbortSignal.timeout(60_000) }

describeWith('nats-server', 'the connection to NATS', () => {
  beforeAll(() => startBench())

  testSessions({ port: () => server.port, create: (port) => nats({ url: `nats://127.0.0.1:${port}` }) })

  it('may be cut while messages are under way: what was confirmed is stored, and the next call works', async () => {
    const { publisher, proxy } = await natsThroughProxy()
    await publishOne(publisher)
    proxy.delay(20)
    const messages = Array.from({ length: 100 }, () => testMessage())
    const call = publish(publisher, messages)
    await new Promise(setImmediate)
    proxy.reset()
    const results = await call
    expect(results.some(({ status }) => status === 'retry')).toBe(true)
    for (const [index, result] of results.entries()) {
      if (result.status === 'published') expect(await stored(messages[index]!)).toHaveLength(1)
      else expect(result).toMatchObject({ status: 'retry', error: { code: 'PUBLISH_TIMEOUT' } })
    }
    expect(await publishOne(publisher)).toMatchObject({ status: 'published' })
    expect(proxy.accepted).toBe(2)
  })

  it('may lose the answers: what is published again is stored once', async () => {
    const { publisher, proxy } = await natsThroughProxy()
    await publishOne(publisher)
    const messages = Array.from({ length: 50 }, () => testMessage())
    // Long enough to look into the stream while the answers are under way.
    proxy.delay(500)
    const call = publish(publisher, messages)
    await expect.poll(async () => (await stored(messages[49]!)).length, { timeout: 10_000 }).toBe(1)
    proxy.reset()
    proxy.delay(0)
    expect((await call).every(({ status }) => status === 'retry')).toBe(true)
    expect((await publish(publisher, messages)).every(({ status }) => status === 'published')).toBe(true)
    for (const message of messages) expect(await stored(message)).toHaveLength(1)
  })

  it('that is lost under a call, and cannot be made again, is an outage', async () => {
    const { publisher, proxy } = await natsThroughProxy()
    await publishOne(publisher)
    proxy.delay(200)
    const call = publish(publisher, [testMessage({ topic: 'a subject that NATS refuses' }), testMessage()])
    await new Promise(setImmediate)
    await proxy.down()
    const refused = { code: 'BROKER_UNAVAILABLE', message: expect.stringContaining('connection refused') }
    expect(await call).toMatchObject([{ status: 'reject' }, { status: 'retry', error: refused }])
  })

  it('tells of each message as soon as it is confirmed', async () => {
    const publisher = await nats({ url: server.url })
    const silent = stream.connection.subscribe('silent.a', { callback: () => undefined })
    await stream.connection.flush()
    const early: (readonly [number, string | undefined])[] = []
    const results = await publisher.publish([testMessage({ topic: 'silent.a' }), testMessage()], {
      signal: AbortSignal.timeout(500),
      onPublished: (index, receipt) => early.push([index, receipt]),
    })
    silent.unsubscribe()
    expect(results).toMatchObject([{ status: 'retry' }, { status: 'published' }])
    expect(early).toEqual([[1, (results[1] as { receipt: string }).receipt]])
  })

  it('that cannot be made is an outage, at once', async () => {
    const { proxy } = await natsThroughProxy()
    await proxy.down()
    const publisher = await nats({ url: `nats://user:hunter2@127.0.0.1:${proxy.port}` })
    const error = await failure(publishOne(publisher))
    expect(error).toMatchObject({ code: 'BROKER_UNAVAILABLE' })
    expect(error.message).toMatch(`cannot connect to NATS at 127.0.0.1:${proxy.port}: connection refused`)
    expect(error.message).not.toContain('hunter2')
    expect(await failure(publisher.checkHealth!(connectsSoon))).toMatchObject({ code: 'BROKER_UNAVAILABLE' })
  })

  it('that is made and never answered is given up, and leaves no socket', async () => {
    const silent = createServer((socket) => socket.resume()).listen(0, '127.0.0.1')
    await once(silent, 'listening')
    const { port } = silent.address() as AddressInfo
    const publisher = await nats({ url: `nats://127.0.0.1:${port}`, connectTimeoutMs: 100 })
    for (let probe = 0; probe < 3; probe++) {
      expect(await failure(publishOne(publisher))).toMatchObject({
        code: 'BROKER_UNAVAILABLE',
        message: expect.stringContaining('timeout'),
      })
    }
    // Closes when the last connection has ended, and no sooner.
    silent.close()
    await once(silent, 'close', { signal: AbortSignal.timeout(2000) })
  })

  it('that takes longer than the call is there for the next one', async () => {
    const { publisher, proxy } = await natsThroughProxy()
    proxy.delay(100)
    expect(await failure(publishOne(publisher, testMessage(), 50))).toMatchObject({
      code: 'BROKER_UNAVAILABLE',
      message: expect.stringContaining('no answer in time'),
    })
    expect(await publishOne(publisher)).toMatchObject({ status: 'published' })
    expect(proxy.accepted).toBe(1)
  })

  it('goes to a server of the list that is there', async () => {
    const { proxy } = await natsThroughProxy()
    await proxy.down()
    const away = `nats://127.0.0.1:${proxy.port}`
    for (let round = 0; round < 5; round++) {
      const publisher = await nats({ url: [away, server.url, away] })
      expect(await publishOne(publisher)).toMatchObject({ status: 'published' })
    }
  })

  it('leaves a server that is about to shut down, before it does', async () => {
    const leaving = await startNats(() => 'lame_duck_duration: 30s, lame_duck_grace_period: 1s')
    const proxy = await createProxy(leaving.port)
    const publisher = await nats({ url: `nats://127.0.0.1:${proxy.port}` })
    await publisher.connect!(connectsSoon)
    proxy.retarget(server.port)
    process.kill(leaving.pid!, 'SIGUSR2')
    await expect
      .poll(async () => (await publishOne(publisher)).status, { timeout: 10_000, interval: 50 })
      .toBe('published')
    expect(leaving.log().join('\n')).not.toContain('Server Exiting')
    await leaving.stop()
  })

  it('ends with the server, and comes back with it', async () => {
    const publisher = await nats({ url: server.url })
    await publisher.connect!(connectsSoon)
    await server.kill('SIGKILL')
    expect(await failure(publishOne(publisher))).toMatchObject({ code: 'BROKER_UNAVAILABLE' })
    await server.restart()
    expect(await publishOne(publisher)).toMatchObject({ status: 'published' })
    await publisher.checkHealth!(connectsSoon)
  })
})

describeWith('nats-server', 'who connects to NATS', () => {
  const { key, cert } = selfSignedCertificate()
  const file = (folder: string, name: string, text: string): string => {
    writeFileSync(join(folder, name), text)
    return JSON.stringify(join(folder, name))
  }
  const tls = (folder: string, verify: boolean) => `tls {
    cert_file: ${file(folder, 'cert.pem', cert)}, key_file: ${file(folder, 'key.pem', key)},
    ca_file: ${file(folder, 'ca.pem', cert)}, verify: ${verify} }`

  const healthy = async (options: Parameters<typeof nats>[0]) => (await nats(options)).connect!(connectsSoon)

  it('may use TLS, and trusts the given certificates alone', async () => {
    const { port } = await startNats((folder) => tls(folder, false))
    await healthy({ url: `tls://localhost:${port}`, ca: cert })
    await healthy({ url: `tls://127.0.0.1:${port}`, ca: cert })
    await healthy({ url: `nats://127.0.0.1:${port}`, ca: cert })
    expect(await failure(healthy({ url: `tls://127.0.0.1:${port}` }))).toMatchObject({
      code: 'BROKER_UNAVAILABLE',
      message: expect.stringContaining('self-signed certificate'),
    })
    const stranger = selfSignedCertificate().cert
    expect(await failure(healthy({ url: `nats://127.0.0.1:${port}`, ca: stranger }))).toMatchObject({
      code: 'BROKER_UNAVAILABLE',
    })
  })

  it.each(['127.0.0.1', 'localhost'] as const)('compares the certificate with %s', async (name) => {
    const own = selfSignedCertificate([name])
    const { port } = await startNats(
      (folder) => `tls {
        cert_file: ${file(folder, 'cert.pem', own.cert)}, key_file: ${file(folder, 'key.pem', own.key)} }`,
    )
    const other = name === 'localhost' ? '127.0.0.1' : 'localhost'
    await healthy({ url: `tls://${name}:${port}`, ca: own.cert })
    expect(await failure(healthy({ url: `tls://${other}:${port}`, ca: own.cert }))).toMatchObject({
      code: 'BROKER_UNAVAILABLE',
      message: expect.stringContaining('does not match certificate'),
    })
  })

  it('may show a certificate', async () => {
    const { port } = await startNats((folder) => tls(folder, true))
    await healthy({ url: `tls://127.0.0.1:${port}`, ca: cert, cert, key })
    expect(await failure(healthy({ url: `tls://127.0.0.1:${port}`, ca: cert }))).toMatchObject({
      code: 'BROKER_UNAVAILABLE',
    })
  })

  it('with tls:// sends nothing to a server without TLS', async () => {
    const { port } = await startNats()
    expect(await failure(healthy({ url: `tls://user:hunter2@127.0.0.1:${port}` }))).toMatchObject({
      code: 'BROKER_UNAVAILABLE',
      message: expect.stringContaining("server does not support 'tls'"),
    })
  })

  it('may use a token', async () => {
    const { port } = await startNats(() => 'authorization { token: "s3cret" }')
    await healthy({ url: `nats://s3cret@127.0.0.1:${port}` })
    const error = await failure(healthy({ url: `nats://wr0ng@127.0.0.1:${port}` }))
    expect(error.message).toContain('Authorization Violation')
    expect(error.message).not.toContain('wr0ng')
  })

  it('may use a password with any characters', async () => {
    const { port } = await startNats(() => 'authorization { user: "a b", password: "p:/@%ü" }')
    const as = (password: string) => `nats://a%20b:${encodeURIComponent(password)}@127.0.0.1:${port}`
    await healthy({ url: as('p:/@%ü') })
    expect((await failure(healthy({ url: as('p:/@%u') }))).message).toContain('Authorization Violation')
  })
  it('may use a credentials file', async () => {
    const { configuration, creds } = createNatsCredentials()
    const { url } = await startNats(() => configuration)
    await healthy({ url, creds })
    const stranger = createNatsCredentials().creds
    const error = await failure(healthy({ url, creds: stranger }))
    expect(error).toMatchObject({ code: 'BROKER_UNAVAILABLE' })
    expect(error.message).toContain('Authorization Violation')
  })
})
