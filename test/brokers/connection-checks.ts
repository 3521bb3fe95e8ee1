import { expect, it } from 'vitest'
import type { Publisher } from '../../src/publishing/publisher.ts'
import { testMessage } from '../../src/testing/test-message.ts'
import { createProxy } from '../support/proxy.ts'
import { failure, publish, publishOne } from './publishing.ts'

export interface ConnectionSubject {
  /** Where the broker listens, asked when it does. */
  port(): number
  /** A publisher to the broker at this port, closed after the test. */
  create(port: number): Promise<Publisher>
}

async function throughProxy({ port, create }: ConnectionSubject) {
  const proxy = await createProxy(port())
  return { proxy, publisher: await create(proxy.port) }
}

/** What holds for the connection of every publisher that has one for all its calls. */
export function testConnection(subject: ConnectionSubject): void {
  it('may become a black hole: the call ends in time, and the next one takes a new connection', async () => {
    const { publisher, proxy } = await throughProxy(subject)
    await publishOne(publisher)
    proxy.blackhole()
    expect(await publish(publisher, [testMessage(), testMessage()], 200)).toMatchObject([
      { status: 'retry', error: { code: 'PUBLISH_TIMEOUT' } },
      { status: 'retry', error: { code: 'PUBLISH_TIMEOUT' } },
    ])
    proxy.blackhole(false)
    expect(await publishOne(publisher)).toMatchObject({ status: 'published' })
    expect(proxy.accepted).toBe(2)
    await expect.poll(() => proxy.connections).toBe(1)
  })

  it('is shared by calls, and one that ends without an answer does not fail the others', async () => {
    const { publisher, proxy } = await throughProxy(subject)
    await publishOne(publisher)
    proxy.delay(100)
    const patient = publishOne(publisher, testMessage(), 10_000)
    const hasty = publishOne(publisher, testMessage(), 50)
    expect(await hasty).toMatchObject({ status: 'retry' })
    expect(await patient).toMatchObject({ status: 'published' })
    expect(proxy.accepted).toBe(1)
  })
}

/** What `createSessions` adds. */
export function testSessions(subject: ConnectionSubject): void {
  testConnection(subject)

  it('may be closed while messages are under way, and while it is being made', async () => {
    const { publisher, proxy } = await throughProxy(subject)
    await publishOne(publisher)
    proxy.blackhole()
    const started = performance.now()
    const call = publishOne(publisher)
    await publisher.close()
    expect(await call).toMatchObject({ status: 'retry', error: { code: 'BROKER_UNAVAILABLE' } })
    const another = await subject.create(proxy.port)
    const connecting = failure(publishOne(another))
    await expect.poll(() => proxy.accepted).toBe(2)
    await another.close()
    const message = `${another.name} is closed`
    expect(await connecting).toMatchObject({ code: 'BROKER_UNAVAILABLE', message })
    expect(performance.now() - started).toBeLessThan(3000)
  })
}
