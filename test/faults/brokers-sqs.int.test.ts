import { setTimeout as delay } from 'node:timers/promises'
import { beforeAll, expect, test } from 'vitest'
import { sqsPublisher } from '../../src/brokers/sqs.ts'
import { type TestRelay, testRelay } from '../relay/harness.ts'
import { type AwsServer, awsRegion, startAws } from '../support/aws.ts'
import { type AwsFront, failEntries, sqsError, startAwsFront } from '../support/aws-front.ts'
import { createLedger } from '../support/ledger.ts'
import { createTestDatabase } from '../support/postgres.ts'
import { type TcpProxy, createProxy } from '../support/proxy.ts'
import { describeWith } from '../support/services.ts'
import { consumeSqs } from '../support/sqs-consumer.ts'
import { createRandom, repeat } from './fixtures/random.ts'
import { expectDelivered, untilSettled } from './fixtures/table.ts'

let server: AwsServer

interface Flow {
  relay: TestRelay
  proxy: TcpProxy
  front: AwsFront
  /** Resolves when so many more events are in the queue, as SQS says. */
  untilPublished(more: number): Promise<void>
  /** Ends the writing, waits for the relay to be done, and hands all that came out of the queue to the ledger. */
  finish(mostAttempts?: number): Promise<{ written: number; duplicates: number }>
}

let flows = 0

/** Writers, the outbox, a relay, a network, SQS as it is on a bad day, and a FIFO queue that is read all the time. */
async function startFlow(): Promise<Flow> {
  const queue = `faults-${++flows}.fifo`
  const database = await createTestDatabase()
  const ledger = await createLedger(database)
  const front = await startAwsFront(server.url)
  const proxy = await createProxy(Number(new URL(front.url).port))
  const consumer = consumeSqs(server.sqs, await server.createQueue(queue))
  const endpoint = `http://127.0.0.1:${proxy.port}`
  const relay = testRelay(database, {
    destinations: { bus: await sqsPublisher({ endpoint, region: awsRegion, queue, name: 'bus' }) },
    batchSize: 50,
    publishTimeoutMs: 3_000,
    retryBaseMs: 10,
    retryMaxMs: 100,
    maxAttempts: 50,
  })
  await relay.start()
  const writers = ledger.startWriters({ aggregates: 30, pauseMs: 40 })
  const published = () => relay.events('batch.finished').reduce((sum, batch) => sum + batch.published, 0)

  async function untilPublished(more: number): Promise<void> {
    const wanted = published() + more
    await relay.until('batch.finished', () => published() >= wanted)
  }

  async function finish(mostAttempts = 0) {
    await writers.stop()
    await untilSettled(database)
    await relay.stop()
    for (let seen = 0; (await ledger.verdict()).lost > 0;) {
      await consumer.waitFor(seen + 1)
      for (; seen < consumer.messages.length; seen++) {
        const { attributes, body } = consumer.messages[seen]!
        ledger.arrived({ eventId: attributes['id']!, body })
      }
    }
    const verdict = await expectDelivered(ledger, database, mostAttempts)
    expect(relay.events('event.dead')).toEqual([])
    return verdict
  }

  await untilPublished(50)
  return { relay, proxy, front, untilPublished, finish }
}

describeWith('sqs', 'SQS while events flow', () => {
  beforeAll(async () => {
    server = await startAws()
  })

  test(
    'takes some entries of a batch and not others: no event overtakes the one before it',
    { timeout: 60_000 * repeat },
    async () => {
      const random = createRandom()
      const { relay, front, untilPublished, finish } = await startFlow()
      let failures = 0
      front.handler = (request, pass) => {
        if (request.action !== 'SendMessageBatch') return pass()
        return failEntries(request, pass, () => {
          if (random.between(1, 10) > 2) return undefined
          failures++
          return { Code: 'InternalError', SenderFault: false, Message: 'a fault of AWS' }
        })
      }
      await untilPublished(400 * repeat)
      // A fault of AWS about one entry counts, since others get through.
      const { duplicates } = await finish(49)
      expect(failures).toBeGreaterThan(30)
      expect(relay.events('event.failed').length).toBeGreaterThan(30)
      expect(duplicates).toBe(0)
    },
  )

  test('throttles: no attempt counted, nothing lost, order kept', { timeout: 60_000 }, async () => {
    const { relay, front, untilPublished, finish } = await startFlow()
    let throttled = 0
    front.handler = ({ action }, pass) => {
      if (action !== 'SendMessageBatch' || throttled >= 6) return pass()
      throttled++
      return sqsError('RequestThrottled')
    }
    const { error } = await relay.until('destination.down')
    expect(error).toContain('takes no more for a moment')
    await relay.until('destination.up')
    await untilPublished(100)
    await finish()
    expect(relay.events('event.failed').filter(({ counted }) => counted)).toEqual([])
  })

  test(
    'loses its connections again and again: nothing lost, order kept, nothing twice',
    { timeout: 60_000 * repeat },
    async () => {
      const random = createRandom()
      const { relay, proxy, untilPublished, finish } = await startFlow()
      let resets = 0
      for (let round = 0; round < 10 * repeat; round++) {
        await delay(random.between(10, 150))
        if (proxy.connections > 0) resets++
        proxy.reset()
        await untilPublished(random.between(1, 20))
      }
      // One that was under way at two resets, while others got through between them, may be counted.
      const { written, duplicates } = await finish(7)
      expect(resets).toBeGreaterThanOrEqual(5 * repeat)
      // A repeated send has the same deduplication id.
      expect(duplicates).toBe(0)
      process.stdout.write(
        `${resets} times reset, ${written} events, ${relay.events('destination.down').length} times taken for away\n`,
      )
    },
  )

  test('is away for a while: told once, no attempt counted', { timeout: 60_000 }, async () => {
    const { relay, proxy, untilPublished, finish } = await startFlow()
    await proxy.down()
    const { error } = await relay.until('destination.down')
    await delay(1_000)
    await proxy.up()
    await relay.until('destination.up')
    await untilPublished(100)
    await finish()
    expect(error).toContain('no connection to AWS')
    expect(relay.events('destination.down')).toHaveLength(1)
    expect(relay.events('event.failed').filter(({ counted }) => counted)).toEqual([])
  })
})
