import { PassThrough, Writable } from 'node:stream'
import { describe, expect, it } from 'vitest'
import { stdoutPublisher } from '../../src/brokers/stdout.ts'
import { delicateBodies, testMessage } from '../../src/testing/test-message.ts'

const signal = new AbortController().signal

describe('the stdout publisher', () => {
  it('writes one line of JSON for each message, the body being as it is', async () => {
    const stream = new PassThrough()
    const publisher = stdoutPublisher({ stream })
    const written = stream.toArray()
    const messages = delicateBodies.map((body) => testMessage({ body, headers: { own: 'ü\n' } }))
    const results = await publisher.publish(messages, { signal })
    expect(results).toEqual(messages.map(() => ({ status: 'published' })))
    stream.end()
    const lines = (await written).join('').split('\n')
    expect(lines.pop()).toBe('')
    expect(lines).toHaveLength(messages.length)
    lines.forEach((line, index) => {
      const { topic, aggregateId, messageId, eventId, body } = messages[index]!
      expect(line.endsWith(`,"body":${body}}`)).toBe(true)
      expect(JSON.parse(line)).toMatchObject({
        topic,
        key: aggregateId,
        id: messageId,
        headers: { id: eventId, aggregateType: 'contract', own: 'ü\n' },
      })
    })
  })

  it('waits until the stream has taken the lines', async () => {
    const taken: (() => void)[] = []
    const stream = new Writable({
      highWaterMark: 1,
      write: (_chunk, _encoding, done) => void taken.push(done),
    })
    const publisher = stdoutPublisher({ stream })
    let settled = false
    const call = publisher.publish([testMessage()], { signal }).finally(() => (settled = true))
    await new Promise(setImmediate)
    expect(settled).toBe(false)
    taken[0]!()
    expect(await call).toEqual([{ status: 'published' }])
  })

  it('calls nothing published that the stream did not take in time', async () => {
    const stream = new Writable({ write: () => undefined })
    const controller = new AbortController()
    const call = stdoutPublisher({ stream }).publish([testMessage()], { signal: controller.signal })
    controller.abort()
    expect(await call).toMatchObject([{ status: 'retry', error: { code: 'PUBLISH_TIMEOUT' } }])
  })

  it('takes a reader that went away for an outage', async () => {
    const stream = new Writable({ write: (_chunk, _encoding, done) => done(new Error('EPIPE')) })
    const publisher = stdoutPublisher({ stream, name: 'out' })
    await expect(publisher.publish([testMessage()], { signal })).rejects.toMatchObject({
      code: 'BROKER_UNAVAILABLE',
      message: expect.stringContaining('EPIPE'),
    })
    await expect(publisher.publish([testMessage()], { signal })).rejects.toMatchObject({
      code: 'BROKER_UNAVAILABLE',
    })
    await expect(publisher.checkHealth!({ signal })).rejects.toMatchObject({ code: 'BROKER_UNAVAILABLE' })
    await publisher.close()
  })

  it('leaves the stream open and without listeners when it is closed', async () => {
    const stream = new PassThrough()
    const before = stream.listenerCount('error')
    const publisher = stdoutPublisher({ stream })
    await publisher.close()
    await publisher.close()
    expect(stream.listenerCount('error')).toBe(before)
    expect(stream.writable).toBe(true)
  })
})
