import { type AddressInfo, createServer } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import { describe, expect, test } from 'vitest'
import { webhookPublisher } from '../../src/brokers/webhook.ts'
import { insertEvents, readEvents, testRelay } from '../relay/harness.ts'
import { atEndOfFile } from '../support/cleanups.ts'
import { createLedger } from '../support/ledger.ts'
import { createTestDatabase } from '../support/postgres.ts'
import { createProxy } from '../support/proxy.ts'
import { type ReceivedRequest, type Responder, startReceiver } from '../support/receiver.ts'
import { createRandom, repeat } from './fixtures/random.ts'
import { expectDelivered, untilSettled } from './fixtures/table.ts'

const aggregateOf = ({ headers }: ReceivedRequest) => headers['x-waybill-aggregate-id']!

/** Writers, the outbox, a relay, and a receiver that tells the ledger what it has taken. */
async function startFlow({ publishTimeoutMs = 2_000 } = {}) {
  const database = await createTestDatabase()
  const ledger = await createLedger(database)
  const receiver = await startReceiver()
  const proxy = await createProxy(receiver.port)
  const take = ({ headers, body }: ReceivedRequest) => {
    if (headers['x-waybill-event-type'] !== 'ledger.counted') return
    ledger.arrived({ eventId: headers['x-waybill-event-id']!, body })
  }
  const well: Responder = (request) => {
    take(request)
    return 204
  }
  receiver.respond = well
  const relay = testRelay(database, {
    destinations: {
      hook: webhookPublisher({
        url: `http://127.0.0.1:${proxy.port}/events`,
        timeoutMs: publishTimeoutMs - 100,
      }),
    },
    publishTimeoutMs,
    maxAttempts: 2,
  })
  await relay.start()
  const writers = ledger.startWriters({ aggregates: 30 })
  await ledger.untilArrivals(50)

  async function finish(mostAttempts?: number) {
    await writers.stop()
    await ledger.untilDelivered(40_000)
    await untilSettled(database)
    await relay.stop()
    return expectDelivered(ledger, database, mostAttempts)
  }
  return { database, ledger, receiver, proxy, relay, take, well, finish }
}

describe('a webhook receiver, while events flow', () => {
  test('that is away costs no attempt, and is told of once', async () => {
    const { receiver, relay, ledger, finish } = await startFlow()
    await receiver.stop()
    await relay.until('destination.down')
    await delay(1_500)
    await receiver.start()
    await relay.until('destination.up')
    await ledger.untilArrivals(100)
    await finish()
    expect(relay.events('destination.down')).toHaveLength(1)
    expect(relay.events('event.failed')).toEqual([])
  })

  test('that resets every connection in the middle of a request costs no attempt', async () => {
    const { receiver, proxy, relay, ledger, finish } = await startFlow()
    let resets = 0
    const resetting = createServer((socket) => {
      socket
        .on('error', () => undefined)
        .once('data', () => {
          resets++
          socket.resetAndDestroy()
        })
    })
    await new Promise<void>((resolve) => resetting.listen(0, '127.0.0.1', resolve))
    atEndOfFile(() => resetting.close())
    proxy.retarget((resetting.address() as AddressInfo).port)
    proxy.reset()
    await relay.until('destination.down')
    await delay(1_000)
    proxy.retarget(receiver.port)
    proxy.reset()
    await relay.until('destination.up')
    await ledger.untilArrivals(100)
    await finish()
    expect(resets).toBeGreaterThan(2)
    expect(relay.events('event.failed').filter(({ counted }) => counted)).toEqual([])
  })

  test('that takes events and resets instead of answering costs no attempt: they come again', async () => {
    const { receiver, relay, ledger, take, well, finish } = await startFlow()
    receiver.respond = (request, response) => {
      take(request)
      response.socket!.resetAndDestroy()
    }
    await relay.until('destination.down')
    await delay(1_000)
    receiver.respond = well
    await ledger.untilArrivals(100)
    expect((await finish()).duplicates).toBeGreaterThan(0)
    expect(relay.events('event.failed').filter(({ counted }) => counted)).toEqual([])
  })

  test(
    'that resets one request in fifty costs that event one attempt at most, and no order',
    { repeats: repeat - 1 },
    async () => {
      const random = createRandom()
      const { ledger, receiver, relay, take, well, finish } = await startFlow()
      const struck = new Set<string>()
      receiver.respond = (request, response) => {
        const id = request.headers['x-waybill-event-id']!
        if (struck.has(id) || random.next() > 0.02) return well(request, response)
        struck.add(id)
        take(request)
        response.socket!.resetAndDestroy()
        return undefined
      }
      await ledger.untilArrivals(600)
      receiver.respond = well
      expect(struck.size).toBeGreaterThan(3)
      expect((await finish(1)).duplicates).toBe(struck.size)
      expect(relay.events('event.dead')).toEqual([])
    },
  )

  test('that never answers costs no attempt', async () => {
    const { receiver, relay, ledger, well, finish } = await startFlow({ publishTimeoutMs: 600 })
    let silent = 0
    receiver.respond = () => {
      silent++
    }
    await relay.until('destination.down')
    await delay(1_500)
    receiver.respond = well
    await relay.until('destination.up')
    await ledger.untilArrivals(100)
    await finish()
    expect(silent).toBeGreaterThan(2)
    expect(relay.events('event.failed').filter(({ counted }) => counted)).toEqual([])
  })

  test.for([503, 429])('that answers %i with Retry-After is left alone for so long', async (status) => {
    const { receiver, relay, ledger, well, finish } = await startFlow()
    const asked: number[] = []
    receiver.respond = (_request, response) => {
      asked.push(performance.now())
      response.writeHead(status, { 'retry-after': '2' }).end()
    }
    await relay.until('destination.down')
    // Calls that were under way are answered too; then it is quiet.
    await delay(400)
    const before = asked.length
    await delay(1_200)
    expect(asked).toHaveLength(before)
    receiver.respond = well
    await relay.until('destination.up')
    await ledger.untilArrivals(100)
    await finish()
    expect(relay.events('event.failed')).toEqual([])
  })

  test('that answers some aggregates slowly does not hold back the others', async () => {
    const { database, receiver, relay, ledger, well, finish } = await startFlow({ publishTimeoutMs: 10_000 })
    receiver.respond = async (request, response) => {
      if (aggregateOf(request).startsWith('slow')) await delay(1_500)
      return well(request, response)
    }
    const slow = await insertEvents(
      database,
      Array.from({ length: 9 }, (_, n) => ({ aggregate: `slow-${n % 3}`, payload: { n } })),
    )
    const began = performance.now()
    const isSlow = (request: ReceivedRequest) => slow.includes(request.headers['x-waybill-event-id']!)
    await receiver.waitFor(receiver.requests.length + 1)
    // Three slow ones after each other take 4.5 seconds; so many others take part of that.
    await ledger.untilArrivals(300)
    const ms = performance.now() - began
    await finish()
    expect(ms).toBeLessThan(4_500)
    const arrived = receiver.requests.filter(isSlow).map(({ headers }) => headers['x-waybill-event-id']!)
    expect(arrived).toHaveLength(9)
    for (const n of [0, 1, 2]) {
      const own = slow.filter((_, index) => index % 3 === n)
      expect(arrived.filter((id) => own.includes(id))).toEqual(own)
    }
    expect(relay.events('destination.down')).toEqual([])
    expect((await readEvents(database)).every((row) => row.published && row.attempts === 0)).toBe(true)
  })
})
