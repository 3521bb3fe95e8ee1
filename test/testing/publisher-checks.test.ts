import { EventEmitter } from 'node:events'
import { describe, expect, it } from 'vitest'
import {
  type Message,
  type Publisher,
  type PublishResult,
  brokerUnavailable,
  publishFailed,
  undeliverable,
} from '../../src/publishing/publisher.ts'
import type { PublisherBench, PublisherFeatures, ReceivedMessage } from '../../src/testing/publisher-bench.ts'
import { publisherChecks } from '../../src/testing/publisher-checks.ts'
import { testPublisher } from '../../src/testing/publisher-contract.ts'
import { delicateBodies } from '../../src/testing/test-message.ts'

const features: PublisherFeatures = {
  ordering: 'batch',
  headers: true,
  oversize: true,
  unencodableHeaders: { bad: 'x' },
  cut: true,
  restart: true,
  misaddressed: true,
}

const behindAnother: PublishResult = { status: 'retry', error: publishFailed('behind another') }

/** A destination in memory, and a publisher to it that keeps the contract, or breaks it in one way. */
function createBench(fault?: string): PublisherBench {
  const received: ReceivedMessage[] = []
  const seen = new Set<string>()
  const connections = new EventEmitter()
  let running = true

  function create(missing = false): Publisher {
    let closed = false
    let broken = false
    connections.on('cut', () => (broken = true))

    async function deliver(message: Message): Promise<PublishResult> {
      const { eventId, messageId, body, headers } = message
      if ('bad' in headers) return { status: 'reject', error: undeliverable('bad header') }
      if (body.length > 2_000_000) return { status: 'reject', error: undeliverable('too large') }
      // As a network would: later, and not at all when something ended it before.
      await new Promise(setImmediate)
      if (closed || broken) {
        if (fault === 'claims what did not arrive') return { status: 'published' }
        if (fault !== 'stays broken after a cut') broken = false
        return { status: 'retry', error: brokerUnavailable('the connection ended') }
      }
      if (fault === 'swallows a replay' && seen.has(eventId)) return { status: 'published' }
      seen.add(eventId)
      received.push({
        eventId,
        messageId: fault === 'forgets the id of a replay' ? eventId : messageId,
        headers: fault === 'loses headers' ? {} : headers,
        body: fault === 'parses payloads' ? JSON.stringify(JSON.parse(body)) : body,
      })
      return { status: 'published' }
    }

    return {
      name: 'memory',
      capabilities: {
        ordering: fault === 'denies its order' ? 'per-call' : 'batch',
        deduplication: false,
        ...(fault === 'does not say its limit' ? {} : { maxMessageBytes: 2_000_000 }),
      },
      async publish(messages, { signal }) {
        if (closed && fault !== 'publishes after close') throw brokerUnavailable('closed')
        if (fault === 'publishes after close') closed = false
        if (!running && fault === 'takes an outage for a bad event') {
          return messages.map(() => ({ status: 'reject', error: undeliverable('away') }))
        }
        if (!running || missing) throw brokerUnavailable('away')
        if (fault === 'ignores the signal' && messages.length === 20)
          await new Promise((done) => setTimeout(done, 2500))
        if (fault === 'claims what did not arrive' && signal.aborted)
          return messages.map(() => ({ status: 'published' }))
        const results: PublishResult[] = []
        const order = fault === 'reorders' && messages.length === 100 ? [...messages].reverse() : messages
        const failed = new Set<string>()
        for (const message of order) {
          const held = fault !== 'goes on behind a failure' && failed.has(message.aggregateId)
          const result = held ? behindAnother : await deliver(message)
          if (result.status !== 'published') failed.add(message.aggregateId)
          results.push(result)
        }
        if (fault === 'fails neighbours' && results.some(({ status }) => status === 'reject')) {
          return results.map(() => ({ status: 'reject', error: undeliverable('batch') }))
        }
        if (fault === 'forgets a result') results.pop()
        if (fault === 'loses a message') received.splice(3, 1)
        return results
      },
      async close() {
        if (closed && fault === 'cannot be closed twice') throw new Error('already closed')
        closed = true
      },
    }
  }

  return {
    create: () => create(),
    received: () => received,
    cut: async () => void connections.emit('cut'),
    stop: async () => void (running = false),
    start: async () => void (running = true),
    misaddressed: () => create(fault !== 'finds a missing queue'),
    patienceMs: 100,
    tearDown: async () => undefined,
  }
}

/** Names of the checks that object. */
async function objections(fault: string | undefined, only?: string): Promise<string[]> {
  const objecting: string[] = []
  for (const { name, run } of publisherChecks) {
    if (only !== undefined && !name.includes(only)) continue
    await run(createBench(fault), features).catch(() => objecting.push(name))
  }
  return objecting
}

describe('the contract of publishers', () => {
  it('has no objection to a publisher that keeps it', async () => {
    expect(await objections(undefined)).toEqual([])
  })

  it.each([
    ['forgets a result', 'one result for each message'],
    ['parses payloads', 'byte for byte'],
    ['loses headers', 'own headers'],
    ['fails neighbours', 'oversize'],
    ['fails neighbours', 'header that it cannot carry'],
    ['does not say its limit', 'oversize'],
    ['denies its order', 'order within one call'],
    ['reorders', 'order within one call'],
    ['goes on behind a failure', 'stands behind a message'],
    ['fails neighbours', 'stands behind a message'],
    ['ignores the signal', 'given up soon'],
    ['publishes after close', 'publishes nothing after that'],
    ['cannot be closed twice', 'closed twice'],
    ['takes an outage for a bad event', 'stopped destination'],
    ['finds a missing queue', 'missing exchange'],
    ['loses a message', 'one result for each message'],
    ['swallows a replay', 'replay'],
    ['forgets the id of a replay', 'replay'],
    ['claims what did not arrive', 'closed while it publishes'],
    ['claims what did not arrive', 'connection was cut'],
    ['stays broken after a cut', 'connection was cut'],
  ])('objects to one that %s (%s)', async (fault, check) => {
    expect(await objections(fault, check)).toHaveLength(1)
  })

  it.each([
    ['something else than a list', new Set(), 'received() must answer with a list, got object'],
    ['the records as they are', [{ id: 'x' }], 'messageId must be text, got undefined'],
    ['no event id', [{ messageId: 'x', body: '{}', headers: {} }], 'eventId must be text, got undefined'],
    [
      'a body that was parsed',
      [{ messageId: 'x', eventId: 'x', body: {}, headers: {} }],
      'body must be text, got object',
    ],
    [
      'no headers',
      [{ messageId: 'x', eventId: 'x', body: '{}' }],
      'headers must be an object, got undefined',
    ],
    [
      'headers as bytes',
      [{ messageId: 'x', eventId: 'x', body: '{}', headers: { a: Buffer.from('b') } }],
      'headers["a"] must be text, got a Buffer',
    ],
  ])('objects at once to a bench that answers %s', async (_what, received, problem) => {
    const { run } = publisherChecks.find(({ name }) => name.includes('one result for each message'))!
    const bench = { ...createBench(), patienceMs: 60_000, received: () => received as ReceivedMessage[] }
    await expect(run(bench, features)).rejects.toThrow(problem)
  })

  it('tries a publisher with the bodies that it takes, and tells which it left out', async () => {
    const { run } = publisherChecks.find(({ name }) => name.includes('byte for byte'))!
    const capabilities = { ordering: 'batch', deduplication: false, maxMessageBytes: 9_999 } as const
    const bodies: string[] = []
    const limited = (bench: PublisherBench): PublisherBench => ({
      ...bench,
      async create() {
        const publisher = await bench.create()
        const { publish } = publisher
        return {
          ...publisher,
          capabilities,
          publish(messages, call) {
            bodies.push(...messages.map(({ body }) => body))
            return publish(messages, call)
          },
        }
      },
    })
    const warned = new Promise<Error>((resolve) => process.once('warning', resolve))
    await run(limited(createBench()), features)
    expect((await warned).message).toBe(
      'memory takes at most 9999 bytes, so bodies of 10000 and 1000012 bytes were not tried',
    )
    expect(bodies).toEqual(delicateBodies.slice(0, -2))
    await expect(run(limited(createBench('parses payloads')), features)).rejects.toThrow('9007199254740993')
  })

  it('leaves out the checks of what a publisher cannot do', async () => {
    const defined: string[] = []
    let torn = 0
    const after: (() => Promise<void>)[] = []
    const runner = {
      describe: (name: string, define: () => void) => {
        defined.push(name)
        define()
      },
      it: (name: string) => void defined.push(name),
      afterAll: (run: () => Promise<void>) => void after.push(run),
    }
    const none = {
      ...features,
      headers: false,
      oversize: false,
      cut: false,
      restart: false,
      misaddressed: false,
    }
    const { unencodableHeaders: _, ...few } = none
    const setUp = async () => ({ ...createBench(), tearDown: async () => void torn++ })
    testPublisher({ name: 'memory', features: few, setUp }, runner)
    expect(defined).toHaveLength(1 + publisherChecks.length - 7)
    expect(defined[0]).toBe('memory as a publisher')
    await Promise.all(after.map((run) => run()))
    // Nothing ran, so nothing was set up.
    expect(torn).toBe(0)
  })
})
