import assert from 'node:assert/strict'
import { setMaxListeners } from 'node:events'
import type { Publisher } from '../publishing/publisher.ts'
import type { PublisherBench, PublisherFeatures } from './publisher-bench.ts'
import {
  arrivals,
  expectAllPublished,
  expectArrived,
  expectOneRefused,
  expectOnlyTrueClaims,
  expectUnavailable,
  expectWorksAgain,
  publish,
  settled,
  withPublisher,
} from './publisher-expectations.ts'
import { receivedBy } from './received.ts'
import { delicateBodies, testMessage } from './test-message.ts'

/** One rule of the contract. */
export interface PublisherCheck {
  readonly name: string
  readonly applies: (features: PublisherFeatures) => boolean
  /** Rejects with an AssertionError when the rule is broken. */
  readonly run: (bench: PublisherBench, features: PublisherFeatures) => Promise<void>
}

const always = (): boolean => true

/** Every rule of the contract, one check each. */
export const publisherChecks: readonly PublisherCheck[] = [
  {
    name: 'answers with one result for each message, in the same order, when all have arrived',
    applies: always,
    run: (bench) =>
      withPublisher(bench, async (publisher) => {
        const messages = Array.from({ length: 20 }, () => testMessage())
        expectAllPublished(await publish(publisher, messages))
        await expectArrived(bench, messages)
      }),
  },
  {
    name: 'takes several calls at once',
    applies: always,
    run: (bench) =>
      withPublisher(bench, async (publisher) => {
        const calls = Array.from({ length: 5 }, () => Array.from({ length: 10 }, () => testMessage()))
        const results = await Promise.all(calls.map((messages) => publish(publisher, messages)))
        results.forEach(expectAllPublished)
        await expectArrived(bench, calls.flat())
      }),
  },
  {
    name: 'delivers every payload byte for byte',
    applies: always,
    run: (bench) =>
      withPublisher(bench, async (publisher) => {
        const messages = bodiesWithin(publisher).map((body) => testMessage({ body }))
        expectAllPublished(await publish(publisher, messages))
        for (const { messageId, body } of messages) {
          const [received] = await arrivals(bench, messageId)
          assert.equal(received?.body, body)
        }
      }),
  },
  {
    name: 'delivers the own headers of an event',
    applies: ({ headers }) => headers,
    run: (bench) =>
      withPublisher(bench, async (publisher) => {
        const message = testMessage({ headers: { 'x-tenant': 'north', traceparent: '00-1-2-01' } })
        expectAllPublished(await publish(publisher, [message]))
        const [received] = await arrivals(bench, message.messageId)
        assert.equal(received?.headers['x-tenant'], 'north')
        assert.equal(received?.headers['traceparent'], '00-1-2-01')
      }),
  },
  {
    name: 'delivers a deliberate replay with an id of its own',
    applies: always,
    run: (bench) =>
      withPublisher(bench, async (publisher) => {
        const first = testMessage()
        const replay = { ...first, messageId: `${first.eventId}.r1`, replay: 1 }
        expectAllPublished(await publish(publisher, [first]))
        expectAllPublished(await publish(publisher, [replay]))
        await expectArrived(bench, [first, replay])
        const [received] = await arrivals(bench, replay.messageId)
        assert.equal(received?.eventId, first.eventId)
      }),
  },
  {
    name: 'refuses one oversize message among nineteen small ones, alone and for good',
    applies: ({ oversize }) => oversize,
    run: (bench) =>
      withPublisher(bench, async (publisher) => {
        const limit = publisher.capabilities.maxMessageBytes
        assert.ok(limit !== undefined, 'capabilities.maxMessageBytes must say what is oversize')
        await expectOneRefused(bench, publisher, testMessage({ body: `"${'x'.repeat(limit - 1)}"` }))
      }),
  },
  {
    name: 'refuses a message with a header that it cannot carry, alone and for good',
    applies: ({ unencodableHeaders }) => unencodableHeaders !== undefined,
    run: (bench, { unencodableHeaders = {} }) =>
      withPublisher(bench, (publisher) =>
        expectOneRefused(bench, publisher, testMessage({ headers: unencodableHeaders })),
      ),
  },
  {
    name: 'says truly whether it keeps the order within one call',
    applies: always,
    run: (bench, { ordering }) =>
      withPublisher(bench, async (publisher) => {
        assert.equal(publisher.capabilities.ordering, ordering)
        if (ordering === 'per-call') return
        const messages = Array.from({ length: 100 }, () => testMessage({ aggregateId: 'one' }))
        expectAllPublished(await publish(publisher, messages))
        await expectArrived(bench, messages)
        const ids = new Set(messages.map(({ messageId }) => messageId))
        const order = (await receivedBy(bench)).map(({ messageId }) => messageId).filter((id) => ids.has(id))
        assert.deepEqual(order, [...ids])
      }),
  },
  {
    name: 'keeps back what stands behind a message of the same aggregate that it refuses, and nothing before it',
    applies: ({ ordering, oversize }) => ordering === 'batch' && oversize,
    run: (bench) =>
      withPublisher(bench, async (publisher) => {
        const { maxMessageBytes = 0 } = publisher.capabilities
        const messages = Array.from({ length: 5 }, () => testMessage({ aggregateId: 'one' }))
        messages[2] = { ...messages[2]!, body: `"${'x'.repeat(maxMessageBytes)}"` }
        const results = await publish(publisher, messages)
        const statuses = results.map(({ status }) => status)
        assert.deepEqual(statuses, ['published', 'published', 'reject', 'retry', 'retry'])
        await expectArrived(bench, messages.slice(0, 2))
        const late = new Set(messages.slice(2).map(({ messageId }) => messageId))
        assert.ok((await receivedBy(bench)).every(({ messageId }) => !late.has(messageId)))
      }),
  },
  {
    name: 'answers a call that is given up soon, and claims nothing that did not arrive',
    applies: always,
    run: (bench) =>
      withPublisher(bench, async (publisher) => {
        const { maxBatchSize = 20 } = publisher.capabilities
        const messages = Array.from({ length: Math.min(20, maxBatchSize) }, () => testMessage())
        const controller = new AbortController()
        setMaxListeners(0, controller.signal)
        const started = performance.now()
        const outcome = settled(publisher.publish(messages, { signal: controller.signal }))
        controller.abort()
        const results = await outcome
        assert.ok(performance.now() - started < 2000, 'publish must settle soon after the abort')
        await expectOnlyTrueClaims(bench, messages, results)
      }),
  },
  {
    name: 'may be closed while it publishes: what it calls published has arrived',
    applies: always,
    run: async (bench) => {
      const publisher = await bench.create()
      const messages = Array.from({ length: 200 }, () => testMessage())
      const outcome = settled(publish(publisher, messages))
      await Promise.all([publisher.close(), publisher.close()])
      await expectOnlyTrueClaims(bench, messages, await outcome)
    },
  },
  {
    name: 'may be closed twice, and publishes nothing after that',
    applies: always,
    run: async (bench) => {
      const publisher = await bench.create()
      expectAllPublished(await publish(publisher, [testMessage()]))
      await publisher.close()
      await publisher.close()
      const late = testMessage()
      const results = await settled(publish(publisher, [late]))
      assert.ok(results.every(({ status }) => status === 'retry'))
    },
  },
  {
    name: 'works again after its connection was cut',
    applies: ({ cut }) => cut,
    run: (bench) =>
      withPublisher(bench, async (publisher) => {
        expectAllPublished(await publish(publisher, [testMessage()]))
        const underWay = Array.from({ length: 50 }, () => testMessage())
        const outcome = settled(publish(publisher, underWay))
        await bench.cut!()
        await expectOnlyTrueClaims(bench, underWay, await outcome)
        await expectWorksAgain(bench, publisher)
      }),
  },
  {
    name: 'says that a stopped destination is away, and works again when it is back',
    applies: ({ restart }) => restart,
    run: (bench) =>
      withPublisher(bench, async (publisher) => {
        expectAllPublished(await publish(publisher, [testMessage()]))
        await bench.stop!()
        try {
          await expectUnavailable(publisher)
        } finally {
          await bench.start!()
        }
        await expectWorksAgain(bench, publisher)
      }),
  },
  {
    name: 'takes a missing exchange, topic or queue for an outage and not for bad events',
    applies: ({ misaddressed }) => misaddressed,
    run: async (bench) => {
      const publisher = await bench.misaddressed!()
      try {
        await expectUnavailable(publisher)
      } finally {
        await publisher.close()
      }
    },
  },
]

/** The delicate bodies that the publisher takes; a warning tells of those that it is too small for. */
function bodiesWithin({ name, capabilities: { maxMessageBytes = Infinity } }: Publisher): readonly string[] {
  const bodies = delicateBodies.filter((body) => Buffer.byteLength(body) <= maxMessageBytes)
  const left = delicateBodies.filter((body) => !bodies.includes(body)).map((body) => Buffer.byteLength(body))
  assert.ok(bodies.length > 0, 'capabilities.maxMessageBytes is too small for any payload')
  if (left.length > 0) {
    process.emitWarning(
      `${name} takes at most ${maxMessageBytes} bytes, so bodies of ${left.join(' and ')} bytes were not tried`,
    )
  }
  return bodies
}
