import { beforeAll, expect, it } from 'vitest'
import type { PublishResult } from '../../src/publishing/publisher.ts'
import { testMessage } from '../../src/testing/test-message.ts'
import { createProxy } from '../support/proxy.ts'
import { connectRedis } from '../support/redis-stream.ts'
import { startRedis } from '../support/redis.ts'
import { describeWith } from '../support/services.ts'
import { failure, publish, publishOne } from './publishing.ts'
import { newStream, redis, server, startBench, streams, streamsThroughProxy } from './redis-streams-bench.ts'

const away = (text: string) => ({
  status: 'retry',
  error: { code: 'BROKER_UNAVAILABLE', message: expect.stringContaining(text) },
})
const soon = () => ({ signal: AbortSignal.timeout(10_000) })

describeWith('redis-server', 'what Redis says', () => {
  beforeAll(() => startBench(() => ({ 'proto-max-bulk-len': '1mb', 'enable-debug-command': 'yes' })))

  it('about its memory is an outage, also for a single message, until there is room', async () => {
    const publisher = await streams({ url: server.url })
    await redis.config('SET', 'maxmemory', '1')
    expect(await publish(publisher, [testMessage(), testMessage()])).toMatchObject([away('OOM'), away('OOM')])
    expect(await publishOne(publisher)).toMatchObject(away('OOM'))
    await redis.config('SET', 'maxmemory', '0')
    expect(await publishOne(publisher)).toMatchObject({ status: 'published' })
  })

  it('about a key of another type concerns its stream, and the others pass', async () => {
    const [wrong, right] = [newStream(), newStream()]
    await redis.set(wrong, 'x')
    const publisher = await streams({ url: server.url })
    const messages = [wrong, right, wrong, right].map((topic) => testMessage({ topic }))
    const text = `redis, stream "${wrong}": WRONGTYPE`
    expect(await publish(publisher, messages)).toMatchObject([
      away(text),
      { status: 'published' },
      away(text),
      { status: 'published' },
    ])
    await redis.del(wrong)
    expect(await publishOne(publisher, messages[0])).toMatchObject({ status: 'published' })
  })

  it('about replicas that are missing is an outage', async () => {
    await redis.config('SET', 'min-replicas-to-write', '1')
    expect(await publishOne(await streams({ url: server.url }))).toMatchObject(away('NOREPLICAS'))
    await redis.config('SET', 'min-replicas-to-write', '0')
  })

  it('while it runs a long script is an outage, on a new connection as well', async () => {
    const publisher = await streams({ url: server.url })
    await publishOne(publisher)
    await redis.config('SET', 'busy-reply-threshold', '1')
    // Ended by SCRIPT KILL, which it answers with an error.
    const busy = connectRedis(server.url)
      .eval('while true do end', 0)
      .catch(() => undefined)
    await expect
      .poll(() => publishOne(publisher, testMessage(), 5000), { timeout: 10_000 })
      .toMatchObject(away('BUSY'))
    expect(await failure(publishOne(await streams({ url: server.url })))).toMatchObject({
      code: 'BROKER_UNAVAILABLE',
      message: expect.stringContaining('BUSY'),
    })
    await redis.script('KILL')
    await busy
    expect(await publishOne(publisher)).toMatchObject({ status: 'published' })
  })

  it('while it loads its data is an outage, on a new connection as well', async () => {
    const publisher = await streams({ url: server.url })
    await publishOne(publisher)
    for (let i = 0; i < 100; i++) await redis.set(`key-${i}`, 'x'.repeat(1000))
    await redis.config('SET', 'key-load-delay', '20000')
    await redis.config('SET', 'loading-process-events-interval-bytes', '1024')
    const loading = connectRedis(server.url).call('DEBUG', 'RELOAD')
    await expect
      .poll(() => publishOne(publisher, testMessage(), 5000), { timeout: 10_000 })
      .toMatchObject(away('LOADING'))
    expect(await failure((await streams({ url: server.url })).checkHealth!(soon()))).toMatchObject({
      code: 'BROKER_UNAVAILABLE',
      message: expect.stringContaining('LOADING'),
    })
    await redis.config('SET', 'key-load-delay', '0')
    await loading
    expect(await publishOne(publisher)).toMatchObject({ status: 'published' })
  })

  it('when it has become a replica makes the next call look for the new primary', async () => {
    const { publisher, proxy } = await streamsThroughProxy()
    await publishOne(publisher)
    const primary = await startRedis()
    await redis.call('REPLICAOF', '127.0.0.1', String(primary.port))
    proxy.retarget(primary.port)
    expect(await publish(publisher, [testMessage(), testMessage()])).toMatchObject([
      away('READONLY'),
      away('READONLY'),
    ])
    const message = testMessage({ topic: newStream() })
    expect(await publishOne(publisher, message)).toMatchObject({ status: 'published' })
    expect(await connectRedis(primary.url).xlen(message.topic)).toBe(1)
    expect(proxy.accepted).toBe(2)
    await redis.call('REPLICAOF', 'NO', 'ONE')
  })

  it('about a value that is too large for it concerns that message alone, for good', async () => {
    const topic = newStream()
    const publisher = await streams({ url: server.url })
    const messages = Array.from({ length: 20 }, (_, i) =>
      testMessage({ topic, ...(i === 7 ? { body: `"${'x'.repeat(1_500_000)}"` } : {}) }),
    )
    let results: readonly PublishResult[] = []
    // Redis closes the connection while the rest is on its way, and its word may be lost with it: tried again then.
    await expect
      .poll(async () => (results = await publish(publisher, messages))[7], { timeout: 20_000 })
      .toMatchObject({
        status: 'reject',
        error: { code: 'EVENT_REJECTED', details: { answer: 'ERR Protocol error: invalid bulk length' } },
      })
    // Nothing of the calls was added.
    const rest = messages.filter((_, i) => i !== 7)
    expect(results.filter(({ status }) => status === 'retry')).toHaveLength(19)
    expect(await redis.xlen(topic)).toBe(0)
    expect((await publish(publisher, rest)).every(({ status }) => status === 'published')).toBe(true)
    expect(await redis.xlen(topic)).toBe(19)
  })

  it('as part of a cluster is an outage', async () => {
    const { url } = await startRedis(() => ({ 'cluster-enabled': 'yes' }))
    expect(await publishOne(await streams({ url }))).toMatchObject(away('CLUSTERDOWN'))
  })
})

describeWith('redis-server', 'who connects to Redis', () => {
  beforeAll(() => startBench(() => ({ requirepass: 'hunter2' }), 'hunter2'))

  const as = (credentials: string) => server.url.replace('//', `//${credentials}@`)

  it('without a password, or with a wrong one, meets an outage, and the password is not told', async () => {
    for (const [url, text] of [
      [server.url, 'NOAUTH'],
      [as(':wr0ng'), 'WRONGPASS'],
      [as('nobody:wr0ng'), 'WRONGPASS'],
    ] as const) {
      const error = await failure(publishOne(await streams({ url })))
      expect(error).toMatchObject({ code: 'BROKER_UNAVAILABLE' })
      expect(error.message).toContain(`cannot connect to Redis at 127.0.0.1:${server.port}: ${text}`)
      expect(error.message).not.toContain('wr0ng')
    }
    expect(await publishOne(await streams({ url: as(':hunter2') }))).toMatchObject({ status: 'published' })
  })

  it('may have a name and any password, and the permission to add to some streams only', async () => {
    const password = 'p:/@%ü ?#'
    await redis.acl('SETUSER', 'a-b', 'on', `>${password}`, '~outbox.*', '+xadd', '+multi', '+exec')
    const publisher = await streams({ url: as(`a-b:${encodeURIComponent(password)}`) })
    const topics = ['outbox.a', 'forbidden', 'outbox.a', 'forbidden']
    const results = await publish(
      publisher,
      topics.map((topic) => testMessage({ topic })),
    )
    expect(results).toMatchObject([
      { status: 'published' },
      away('NOPERM'),
      { status: 'published' },
      away('NOPERM'),
    ])
    await publisher.checkHealth!(soon())
  })

  it('finds another database than the one it asked for: nothing is written', async () => {
    const topic = newStream()
    const publisher = await streams({ url: `${as(':hunter2')}/99` })
    expect(await failure(publishOne(publisher, testMessage({ topic })))).toMatchObject({
      code: 'BROKER_UNAVAILABLE',
      message: expect.stringContaining('DB index is out of range'),
    })
    expect(await redis.exists(topic)).toBe(0)
  })

  it('after the password was changed is told so, and the connection is given up', async () => {
    const proxy = await createProxy(server.port)
    await redis.acl('SETUSER', 'changing', 'on', '>first', '~*', '+@all')
    const publisher = await streams({ url: `redis://changing:first@127.0.0.1:${proxy.port}` })
    await publishOne(publisher)
    await redis.acl('DELUSER', 'changing')
    // Redis ends the connections of such a user; the next one is refused.
    expect(
      await publishOne(publisher).then(
        (result) => result,
        (error: Error) => ({ status: 'retry', error }),
      ),
    ).toMatchObject({ status: 'retry' })
    expect(await failure(publishOne(publisher))).toMatchObject({
      code: 'BROKER_UNAVAILABLE',
      message: expect.stringContaining('WRONGPASS'),
    })
  })
})
