import { type JetStreamManager, jetstreamManager } from '@nats-io/jetstream'
import { connect } from '@nats-io/transport-node'
import { beforeAll, expect, it, vi } from 'vitest'
import { natsPublisher, natsSource } from '../../src/brokers/nats.ts'
import type { Source } from '../../src/publishing/source.ts'
import { testMessage } from '../../src/testing/test-message.ts'
import { atEndOfFile } from '../support/cleanups.ts'
import { type NatsServer, startNats } from '../support/nats.ts'
import { describeWith } from '../support/services.ts'
import { failure } from './publishing.ts'
import { done } from './reading-bench.ts'

let server: NatsServer

/** May read what the page says, and write what belongs to it; `mute` may not acknowledge. */
const users = `
authorization { users: [
  { user: admin, password: secret },
  { user: reader, password: secret, permissions: {
    publish: [
      "$JS.API.STREAM.INFO.WAYBILL_READERS", "$JS.API.STREAM.MSG.GET.WAYBILL_READERS", "waybill.readers.OUTBOX.search",
      "$JS.API.CONSUMER.INFO.OUTBOX.search", "$JS.API.CONSUMER.MSG.NEXT.OUTBOX.search", "$JS.ACK.OUTBOX.search.>" ],
    subscribe: "_INBOX.>" } },
  { user: mute, password: secret, permissions: {
    publish: { allow: ">", deny: "$JS.ACK.>" }, subscribe: "_INBOX.>" } },
  { user: stranger, password: secret, permissions: { publish: "nothing", subscribe: "_INBOX.>" } }
] }`

const urlOf = (user: string, password = 'secret') => server.url.replace('//', `//${user}:${password}@`)

/** Starts it, and tells what it hands over and what it says. */
async function read(options: Partial<Parameters<typeof natsSource>[0]> = {}) {
  const source: Source = natsSource({ url: urlOf('admin'), stream: 'OUTBOX', consumer: 'search', ...options })
  atEndOfFile(() => source.stop({ graceMs: 100 }))
  const bodies: string[] = []
  const told: string[] = []
  await source.start(
    async ({ body }) => {
      bodies.push(Buffer.from(body as Uint8Array).toString())
      return done
    },
    { observer: { down: (error) => void told.push(error.message), up: () => void told.push('up') } },
  )
  return { bodies, told, stop: () => source.stop({ graceMs: 2000 }) }
}

async function send(...bodies: string[]): Promise<void> {
  const publisher = await natsPublisher({ url: urlOf('admin') })
  const messages = bodies.map((body) => testMessage({ body, topic: 'outbox.event.order' }))
  const results = await publisher.publish(messages, { signal: AbortSignal.timeout(10_000) })
  await publisher.close()
  expect(new Set(results.map(({ status }) => status))).toEqual(new Set(['published']))
}

describeWith('nats-server', 'a source of NATS, beside what all have', () => {
  let manager: JetStreamManager

  beforeAll(async () => {
    server = await startNats(() => users)
    const { hostname, port } = new URL(server.url)
    const connection = await connect({ servers: `${hostname}:${port}`, user: 'admin', pass: 'secret' })
    atEndOfFile(() => connection.close())
    manager = await jetstreamManager(connection)
    await manager.streams.add({ name: 'OUTBOX', subjects: ['outbox.>'] })
  })

  it('makes its consumer, which begins with the oldest message and never stops delivering one', async () => {
    await send('1', '2')
    const { bodies, stop } = await read({ consumer: 'made', subject: 'outbox.event.*', ackWaitMs: 4000 })
    await vi.waitFor(() => expect(bodies).toEqual(['1', '2']), { timeout: 10_000 })
    await stop()
    const { config, num_ack_pending: pending } = await manager.consumers.info('OUTBOX', 'made')
    expect(config).toMatchObject({
      ...{ durable_name: 'made', ack_policy: 'explicit', deliver_policy: 'all', max_deliver: -1 },
      ...{ ack_wait: 4_000_000_000, filter_subject: 'outbox.event.*' },
    })
    expect(pending).toBe(0)
  })

  it('refuses a stream that does not exist, a user without rights, and a consumer that would lose messages', async () => {
    const missing = await failure(read({ stream: 'NONE' }))
    expect(missing).toMatchObject({ code: 'BROKER_UNAVAILABLE' })
    expect(missing.message).toMatch(
      /nats: NATS at 127.0.0.1:\d+: .*the stream NONE does not exist, create it/,
    )

    const stranger = await failure(read({ url: urlOf('admin', 'wrong') }))
    expect(stranger).toMatchObject({
      code: 'BROKER_UNAVAILABLE',
      message: expect.stringMatching(/Authorization/),
    })
    const powerless = await failure(read({ url: urlOf('stranger') }))
    expect(powerless.message).toMatch(/Permissions Violation.*CONSUMER\.INFO\.OUTBOX\.search/)

    await manager.consumers.add('OUTBOX', { durable_name: 'few', ack_policy: 'explicit', max_deliver: 3 })
    const few = await failure(read({ consumer: 'few' }))
    expect(few).toMatchObject({ code: 'CONFIGURATION_INVALID' })
    expect(few.message).toMatch(/expected the consumer few to have max_deliver to be -1, got 3/)
  })

  it('needs no more rights than the page says, once consumer and leases are there', async () => {
    await (await read()).stop()
    const { bodies, told, stop } = await read({ url: urlOf('reader') })
    await send('"with few rights"')
    await vi.waitFor(() => expect(bodies).toContain('"with few rights"'), { timeout: 10_000 })
    await stop()
    expect(told).toEqual([])
    expect((await manager.consumers.info('OUTBOX', 'search')).num_ack_pending).toBe(0)
  })

  it('says that it may not acknowledge', async () => {
    const { told, stop } = await read({ url: urlOf('mute'), consumer: 'mute' })
    await vi.waitFor(() => expect(told[0]).toMatch(/Permissions Violation.*\$JS\.ACK\.OUTBOX\.mute/i), {
      timeout: 10_000,
    })
    await stop()
  })

  it('makes its consumer again when somebody has removed it', async () => {
    const { bodies, told, stop } = await read({ consumer: 'removed' })
    await vi.waitFor(() => expect(bodies.length).toBeGreaterThan(0), { timeout: 10_000 })
    await manager.consumers.delete('OUTBOX', 'removed')
    await vi.waitFor(() => expect(told[1]).toBe('up'), { timeout: 20_000 })
    await send('"after"')
    await vi.waitFor(() => expect(bodies).toContain('"after"'), { timeout: 10_000 })
    await stop()
  })

  it('refuses options that do not fit', () => {
    const right = { url: 'nats://127.0.0.1:4222', stream: 'S', consumer: 'c' }
    expect(() => natsSource({ ...right, consumer: 'a.b' })).toThrow(
      'expected nats.consumer to be a name of a consumer',
    )
    expect(() => natsSource({ ...right, durable: 'x' } as never)).toThrow('unknown option "nats.durable"')
    expect(() => natsSource({ ...right, ackWaitMs: 10 })).toThrow(/nats.ackWaitMs to be an integer from 1000/)
    expect(natsSource(right)).toMatchObject({
      name: 'nats',
      subscription: 'nats:stream=S consumer=c',
      capabilities: { ordering: 'aggregate', holding: true },
    })
    expect(natsSource({ ...right, readers: 'shared' }).capabilities.ordering).toBe('none')
  })
})
