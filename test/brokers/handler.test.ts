import { describe, expect, it } from 'vitest'
import { handlerPublisher } from '../../src/brokers/handler.ts'
import { brokerUnavailable, rejectedBy, undeliverable } from '../../src/publishing/publisher.ts'
import { testMessage } from '../../src/testing/test-message.ts'

const signal = new AbortController().signal
const hang = () => new Promise<never>(() => undefined)

describe('the handler publisher', () => {
  it('calls what was given with the message', async () => {
    const seen: unknown[] = []
    const publisher = handlerPublisher((message) => void seen.push(message))
    const message = testMessage()
    expect(await publisher.publish([message], { signal })).toEqual([{ status: 'published' }])
    expect(seen).toEqual([message])
    expect(publisher.name).toBe('handler')
  })

  it.each([
    ['an error', new Error('no stock'), 'retry', 'PUBLISH_FAILED', /^the handler failed: no stock$/],
    ['undefined', undefined, 'retry', 'PUBLISH_FAILED', /thrown: undefined/],
    ['a text', 'text', 'retry', 'PUBLISH_FAILED', /text/],
    ['null prototype', Object.create(null), 'retry', 'PUBLISH_FAILED', /cannot be described/],
    ['5 MB', new Error('x'.repeat(5_000_000)), 'retry', 'PUBLISH_FAILED', /^.{1000,1100}$/],
    ['undeliverable', undeliverable('bad'), 'reject', 'EVENT_UNDELIVERABLE', /^bad$/],
    ['a refusal', rejectedBy('unknown order', 'bad'), 'reject', 'EVENT_REJECTED', /^bad$/],
    ['an outage', brokerUnavailable('away'), 'retry', 'BROKER_UNAVAILABLE', /^away$/],
  ])('turns a thrown value into a result: %s', async (_what, thrown, status, code, message) => {
    for (const how of ['sync', 'async'] as const) {
      const publisher = handlerPublisher(() => {
        if (how === 'async') return Promise.reject(thrown)
        throw thrown
      })
      expect(await publisher.publish([testMessage()], { signal })).toEqual([
        { status, error: expect.objectContaining({ code, message: expect.stringMatching(message) }) },
      ])
    }
  })

  it('handles as many at once as it may', async () => {
    let active = 0
    let most = 0
    const publisher = handlerPublisher(
      async () => {
        most = Math.max(most, ++active)
        await new Promise(setImmediate)
        active--
      },
      { concurrency: 3 },
    )
    const messages = Array.from({ length: 20 }, () => testMessage())
    await publisher.publish(messages, { signal })
    expect(most).toBe(3)
    expect(publisher.capabilities.maxBatchSize).toBe(3)
  })

  it('tells the handler when a call is given up, and does not wait for one that hangs', async () => {
    const told: boolean[] = []
    const publisher = handlerPublisher(
      ({ eventType }, { signal: given }) => {
        given.addEventListener('abort', () => told.push(true))
        return eventType === 'hang' ? hang() : undefined
      },
      { concurrency: 2 },
    )
    const controller = new AbortController()
    const call = publisher.publish(
      [testMessage({ eventType: 'hang' }), testMessage(), testMessage({ eventType: 'hang' }), testMessage()],
      { signal: controller.signal },
    )
    await new Promise(setImmediate)
    controller.abort()
    const results = await call
    expect(results.map(({ status }) => status)).toEqual(['retry', 'published', 'retry', 'retry'])
    expect(results[0]).toMatchObject({ error: { code: 'PUBLISH_TIMEOUT' } })
    expect(told.length).toBeGreaterThan(0)
    // The hanging ones take no lane from those who come later.
    expect(await publisher.publish([testMessage(), testMessage()], { signal })).toEqual([
      { status: 'published' },
      { status: 'published' },
    ])
  })

  it('refuses wrong options', () => {
    expect(() => handlerPublisher(undefined as never)).toThrow(/handler\.handle/)
    expect(() => handlerPublisher(() => undefined, { concurrency: 0 })).toThrow(/handler\.concurrency/)
  })
})
