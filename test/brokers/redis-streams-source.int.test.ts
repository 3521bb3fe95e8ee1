import { beforeAll, expect, it, vi } from 'vitest'
import { redisStreamsSource } from '../../src/brokers/redis-streams.ts'
import type { Source } from '../../src/publishing/source.ts'
import { testMessage } from '../../src/testing/test-message.ts'
import { atEndOfFile } from '../support/cleanups.ts'
import { describeWith } from '../support/services.ts'
import { done } from './reading-bench.ts'
import { failure, publish } from './publishing.ts'
import { newStream, redis, server, startBench, streams } from './redis-streams-bench.ts'

type Options = Parameters<typeof redisStreamsSource>[0]

async function read(options: Omit<Options, 'url' | 'group'> & Partial<Options>) {
  const source: Source = redisStreamsSource({ url: server.url, group: 'search', ...options })
  atEndOfFile(() => source.stop({ graceMs: 100 }))
  const bodies: string[] = []
  const told: string[] = []
  let [unanswered, most] = [0, 0]
  await source.start(
    async ({ body }) => {
      bodies.push(String(body))
      most = Math.max(most, ++unanswered)
      await new Promise((resolve) => setTimeout(resolve, 10))
      unanswered--
      return done
    },
    { observer: { down: (error) => void told.push(error.message), up: () => void told.push('up') } },
  )
  return { bodies, told, most: () => most, stop: () => source.stop({ graceMs: 2000 }) }
}

async function send(topic: string, ...bodies: string[]): Promise<void> {
  const publisher = await streams({ url: server.url })
  const results = await publish(
    publisher,
    bodies.map((body) => testMessage({ topic, body })),
  )
  expect(new Set(results.map(({ status }) => status))).toEqual(new Set(['published']))
}

const pending = async (stream: string) => ((await redis.xpending(stream, 'search')) as [number])[0]

describeWith('redis-server', 'a source of Redis Streams, beside what all have', () => {
  beforeAll(() => startBench())

  it('makes streams and group, begins with the oldest entry, and reads several streams', async () => {
    const [old, missing] = [newStream(), newStream()]
    await send(old, '1', '2')
    const { bodies, most, stop } = await read({ streams: [old, missing], prefetch: 1 })
    await vi.waitFor(() => expect(bodies).toEqual(['1', '2']), { timeout: 10_000 })
    await redis.multi().xadd(missing, '*', 'body', '3').xadd(old, '*', 'body', '4').exec()
    await vi.waitFor(() => expect(bodies.toSorted()).toEqual(['1', '2', '3', '4']), { timeout: 10_000 })
    expect(most()).toBe(1)
    await stop()
    expect(await pending(old)).toBe(0)
    const consumers = (await redis.xinfo('CONSUMERS', old, 'search')) as unknown[]
    expect(consumers).toHaveLength(1)
  })

  it('takes over all that other consumers of the group had, in order and before what is new', async () => {
    const stream = newStream()
    const bodies = Array.from({ length: 250 }, (_, i) => String(i))
    await redis.xgroup('CREATE', stream, 'search', '0', 'MKSTREAM')
    await send(stream, ...bodies.slice(0, 230))
    await redis.xreadgroup('GROUP', 'search', 'a', 'COUNT', 120, 'STREAMS', stream, '>')
    await redis.xreadgroup('GROUP', 'search', 'b', 'COUNT', 110, 'STREAMS', stream, '>')
    await send(stream, ...bodies.slice(230))
    const { bodies: got, stop } = await read({ streams: [stream], prefetch: 7 })
    await vi.waitFor(() => expect(got).toHaveLength(250), { timeout: 20_000 })
    expect(got).toEqual(bodies)
    await stop()
    expect(await pending(stream)).toBe(0)
  })

  it('finds what a read of a process that died took after the takeover', async () => {
    const stream = newStream()
    const { bodies, stop } = await read({ streams: [stream], claimAfterMs: 1000, readers: 'exclusive' })
    // As a read that was under way when its process ended.
    const late = redis.xreadgroup(
      'GROUP',
      'search',
      'waybill',
      'COUNT',
      1,
      'BLOCK',
      5000,
      'STREAMS',
      stream,
      '>',
    )
    await send(stream, '1', '2', '3', '4')
    await late
    await vi.waitFor(() => expect(bodies.toSorted()).toEqual(['1', '2', '3', '4']), { timeout: 10_000 })
    await stop()
    expect(await pending(stream)).toBe(0)
  })

  it('passes over an entry that was trimmed before it was handled', async () => {
    const stream = newStream()
    await redis.xgroup('CREATE', stream, 'search', '0', 'MKSTREAM')
    await send(stream, '1', '2', '3')
    await redis.xreadgroup('GROUP', 'search', 'gone', 'STREAMS', stream, '>')
    await redis.xtrim(stream, 'MAXLEN', 1)
    const { bodies, told, stop } = await read({ streams: [stream] })
    await vi.waitFor(() => expect(bodies).toEqual(['3']), { timeout: 10_000 })
    await stop()
    expect(told).toEqual([])
    expect(await pending(stream)).toBe(0)
  })

  it('makes the group again when somebody has removed the stream', async () => {
    const stream = newStream()
    const { bodies, told, stop } = await read({ streams: [stream] })
    await redis.del(stream)
    await vi.waitFor(
      () => expect(told).toEqual([expect.stringMatching(/NOGROUP|UNBLOCKED|no longer exists/), 'up']),
      {
        timeout: 10_000,
      },
    )
    await send(stream, '1')
    await vi.waitFor(() => expect(bodies).toEqual(['1']), { timeout: 10_000 })
    await stop()
  })

  it('refuses a key that is no stream, and a user without rights', async () => {
    await redis.set('text', 'x')
    const wrong = await failure(read({ streams: ['text'] }))
    expect(wrong).toMatchObject({ code: 'BROKER_UNAVAILABLE' })
    expect(wrong.message).toMatch(/^redis: Redis at 127.0.0.1:\d+ cannot be read: WRONGTYPE/)

    await redis.acl('SETUSER', 'weak', 'on', '>secret', '~*', '+ping', '+client|setname')
    const url = server.url.replace('//', '//weak:secret@')
    expect((await failure(read({ streams: [newStream()], url }))).message).toMatch(/NOPERM/)
    const stranger = server.url.replace('//', '//weak:wrong@')
    expect((await failure(read({ streams: [newStream()], url: stranger }))).message).toMatch(/WRONGPASS/)
  })

  it('needs no more rights than the page says', async () => {
    const stream = newStream()
    const commands =
      '+ping +xgroup|create +xreadgroup +xautoclaim +xclaim +xack +get +set +pexpire +del +watch +unwatch +multi +exec'
    await redis.acl('SETUSER', 'reader', 'on', '>secret', '~outbox.*', ...commands.split(' '))
    const { bodies, told, stop } = await read({
      ...{ streams: [stream], url: server.url.replace('//', '//reader:secret@'), claimAfterMs: 1000 },
    })
    await send(stream, '1')
    await vi.waitFor(() => expect(bodies).toEqual(['1']), { timeout: 10_000 })
    // Long enough for the lease to be renewed.
    await new Promise((resolve) => setTimeout(resolve, 1500))
    await send(stream, '2')
    await vi.waitFor(() => expect(bodies).toEqual(['1', '2']), { timeout: 10_000 })
    await stop()
    expect(told).toEqual([])
    expect(await pending(stream)).toBe(0)
  })

  it('refuses options that do not fit', () => {
    const right = { url: 'redis://127.0.0.1:6379/2', streams: ['b', 'a'], group: 'g' }
    expect(() => redisStreamsSource({ ...right, streams: [] })).toThrow(
      /redis.streams to be a list of at least 1/,
    )
    expect(() => redisStreamsSource({ ...right, stream: 'x' } as never)).toThrow(
      'unknown option "redis.stream", did you mean "redis.streams"',
    )
    expect(redisStreamsSource(right)).toMatchObject({
      name: 'redis',
      subscription: 'redis:2 group=g streams=a,b',
      capabilities: { ordering: 'aggregate', holding: true },
    })
    expect(redisStreamsSource({ ...right, readers: 'shared' }).capabilities.ordering).toBe('none')
  })
})
