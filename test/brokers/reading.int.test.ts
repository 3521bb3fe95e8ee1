import { beforeAll, describe, expect, it, vi } from 'vitest'
import type { DeliveryAnswer } from '../../src/publishing/source.ts'
import { describeWith } from '../support/services.ts'
import {
  type ReadingBench,
  bodiesOf,
  done,
  firsts,
  messagesTo,
  readingBrokers,
  startReader,
} from './reading-bench.ts'

// The lease of a reader that died lasts for a while.
vi.setConfig({ testTimeout: 120_000 })

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))
const never = () => new Promise<DeliveryAnswer>(() => undefined)

for (const broker of readingBrokers) {
  describeWith(broker.service, `a source of ${broker.name}`, () => {
    let bench: ReadingBench

    beforeAll(async () => {
      bench = await broker.start()
    })

    describe('with one reader', () => {
      it('lets another process stand by, which goes on at once after a stop, in order', async () => {
        const topic = await bench.newQueue()
        const messages = messagesTo(topic, 60)
        let answers = 0
        // A part is still with the consumer when it stops.
        const again: DeliveryAnswer = { status: 'again', afterMs: 0, error: new Error('it stops') }
        let stopNow!: () => void
        const stops = new Promise<void>((resolve) => (stopNow = resolve))
        const answer = () => (answers++ < 10 ? done : stops.then(() => again))
        // What is given back does not wait for that.
        const keepMs = 20_000
        const first = await startReader(bench, topic, { answer, keepMs })
        const second = await startReader(bench, topic, { keepMs })
        await bench.send(messages.slice(0, 30))
        await first.arrived(messages.slice(0, 30))
        await pause(1500)
        expect(second.deliveries).toEqual([])
        expect(first.deliveries).toHaveLength(30)

        const stopping = first.stop()
        stopNow()
        await stopping
        const stopped = performance.now()
        await bench.send(messages.slice(30))
        await second.arrived(messages.slice(10))
        // It looks each second.
        expect(performance.now() - stopped).toBeLessThan(4000)
        expect(firsts(second.bodies)).toEqual(bodiesOf(messages.slice(10)))
        expect(second.deliveries.slice(0, 20).every(({ redelivered }) => redelivered)).toBe(true)
        expect(second.deliveries.at(-1)!.redelivered).toBe(false)
        expect([...first.told, ...second.told]).toEqual([])
        await second.stop()
      })

      it('takes over what a process had that is cut off, before anything newer; that one knows that it has lost it', async () => {
        const topic = await bench.newQueue()
        const messages = messagesTo(topic, 30)
        const keepMs = broker.lateMs
        const first = await startReader(bench, topic, { prefetch: 5, answer: never, keepMs })
        const second = await startReader(bench, topic, { keepMs })
        await bench.send(messages)
        await first.arrived(messages.slice(0, 5))
        const lost = vi.fn<() => void>()
        first.deliveries[0]!.lost!.addEventListener('abort', lost)
        first.proxy.blackhole()
        await second.arrived(messages)
        expect(lost).toHaveBeenCalledOnce()
        expect(firsts(second.bodies)).toEqual(bodiesOf(messages))
        expect(second.deliveries.slice(0, 5).map(({ redelivered }) => redelivered)).toEqual(
          Array(5).fill(true),
        )
        await expect.poll(() => first.told).toHaveLength(1)
        await first.stop(100)
        await second.stop()
      })

      it('reads all again in order when its connection breaks while messages are in hand', async () => {
        const topic = await bench.newQueue()
        const messages = messagesTo(topic, 40)
        let cut = false
        const reader = await startReader(bench, topic, {
          prefetch: 10,
          // What is in hand does not wait for that: it is given back over the next connection.
          keepMs: 20_000,
          // What began before the cut ends after it, and is not acknowledged twice.
          answer: () => (cut ? done : pause(500).then(() => done)),
        })
        await bench.send(messages)
        await reader.arrived(messages.slice(0, 10))
        reader.proxy.reset()
        cut = true
        const cutAt = performance.now()
        await reader.arrived(messages)
        expect(performance.now() - cutAt).toBeLessThan(10_000)
        const after = reader.bodies.slice(10)
        expect(firsts(after)).toEqual(bodiesOf(messages))
        expect(reader.deliveries[0]!.lost!.aborted).toBe(true)
        expect(reader.deliveries[10]!.redelivered).toBe(true)
        await reader.stop()
        const next = await startReader(bench, topic)
        await bench.send(messagesTo(topic, 1, { body: '"marker"' }))
        await vi.waitFor(() => expect(next.bodies).toEqual(['"marker"']), { timeout: 20_000 })
        await next.stop()
      })
    })

    it('gives to other readers what a process had that died, and what it gave back', async () => {
      const topic = await bench.newQueue()
      const messages = messagesTo(topic, 20)
      const dead = await startReader(bench, topic, { readers: 'shared', prefetch: 6, answer: never })
      await bench.send(messages.slice(0, 6))
      await dead.arrived(messages.slice(0, 6))
      const reader = await startReader(bench, topic, { readers: 'shared' })
      await bench.send(messages.slice(6))
      await reader.arrived(messages.slice(6))
      // They are kept as long as it lives.
      await pause(2500)
      expect(reader.deliveries).toHaveLength(14)
      dead.proxy.blackhole()
      await reader.arrived(messages)
      expect(reader.deliveries.slice(14).every(({ redelivered }) => redelivered)).toBe(true)
      await dead.stop(100)
      await reader.stop()
    })

    it('shares the messages among all readers', async () => {
      const topic = await bench.newQueue()
      const messages = messagesTo(topic, 200)
      const answer = () => pause(20).then(() => done)
      const readers = [
        await startReader(bench, topic, { readers: 'shared', prefetch: 10, answer }),
        await startReader(bench, topic, { readers: 'shared', prefetch: 10, answer }),
      ]
      await bench.send(messages)
      const all = () => readers.flatMap(({ bodies }) => bodies)
      await vi.waitFor(() => expect(new Set(all()).size).toBe(200), { timeout: 20_000 })
      expect(all()).toHaveLength(200)
      for (const { deliveries } of readers) expect(deliveries.length).toBeGreaterThan(40)
      await Promise.all(readers.map(({ stop }) => stop()))
    })

    it.each(['exclusive', 'shared'] as const)(
      'has at most `prefetch` messages unanswered, and keeps them (%s)',
      async (readers) => {
        const topic = await bench.newQueue()
        const messages = messagesTo(topic, 25)
        const answers: (() => void)[] = []
        const reader = await startReader(bench, topic, {
          readers,
          prefetch: 10,
          keepMs: 1000,
          answer: () => new Promise((resolve) => answers.push(() => resolve(done))),
        })
        await bench.send(messages.slice(0, 9))
        await reader.arrived(messages.slice(0, 9))
        // Longer than a process may be silent: with room for one more, none of them comes again.
        await pause(3500)
        expect(reader.deliveries).toHaveLength(9)
        await bench.send(messages.slice(9))
        await reader.arrived(messages.slice(9, 10))
        await pause(500)
        expect(reader.deliveries).toHaveLength(10)
        while (reader.deliveries.length < 25) {
          for (const answer of answers.splice(0)) answer()
          await pause(10)
        }
        for (const answer of answers) answer()
        await reader.stop()
        expect(reader.bodies).toEqual(bodiesOf(messages))
        expect(reader.told).toEqual([])
      },
    )

    it.each(['exclusive', 'shared'] as const)(
      'reads on after the broker was restarted in the middle (%s)',
      async (readers) => {
        const topic = await bench.newQueue()
        const messages = messagesTo(topic, 40)
        const reader = await startReader(bench, topic, {
          readers,
          prefetch: 5,
          answer: () => pause(100).then(() => done),
        })
        await bench.send(messages.slice(0, 20))
        await reader.arrived(messages.slice(0, 5))
        await bench.server.kill('SIGTERM')
        await vi.waitFor(() => expect(reader.told).toHaveLength(1), { timeout: 10_000 })
        await bench.server.restart()
        await bench.send(messages.slice(20))
        await reader.arrived(messages)
        if (readers === 'exclusive') expect(firsts(reader.bodies)).toEqual(bodiesOf(messages))
        expect(reader.told).toEqual([expect.stringContaining(broker.name), 'up'])
        await reader.stop()
      },
    )

    it('starts while the broker is away, is stopped while it is, and leaves no connection behind', async () => {
      const topic = await bench.newQueue()
      const away = bench.source(topic, 1, {})
      const down = vi.fn<(error: Error) => void>()
      await away.start(async () => done, { observer: { down, up: () => undefined } })
      expect(down.mock.calls[0]![0].message).toMatch(/ECONNREFUSED|CONNECTION_REFUSED|connection refused/i)
      const begun = performance.now()
      await away.stop({ graceMs: 10_000 })
      expect(performance.now() - begun).toBeLessThan(1000)

      const reader = await startReader(bench, topic, { prefetch: 3, answer: never })
      await bench.send(messagesTo(topic, 5))
      await vi.waitFor(() => expect(reader.deliveries).toHaveLength(3), { timeout: 10_000 })
      expect(reader.proxy.connections).toBeGreaterThan(0)
      // Nobody answers: it waits as long as it may.
      const stopping = performance.now()
      await reader.stop(700)
      expect(performance.now() - stopping).toBeGreaterThan(650)
      expect(performance.now() - stopping).toBeLessThan(3000)
      await expect.poll(() => reader.proxy.connections, { timeout: 5000 }).toBe(0)
    })

    it('hands over what is no event as it is', async () => {
      const topic = await bench.newQueue()
      const reader = await startReader(bench, topic)
      await bench.sendForeign(topic, 'no event')
      await vi.waitFor(() => expect(reader.bodies).toEqual(['no event']), { timeout: 10_000 })
      expect(reader.deliveries[0]).toMatchObject({ topic, headers: [], redelivered: false })
      await reader.stop()
    })
  })
}
