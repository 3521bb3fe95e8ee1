import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { createWakeup } from '../../src/relay/wakeup.ts'
import { createTelemetry } from '../../src/telemetry/events.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

const startWakeup = () =>
  createWakeup({
    listener: { state: 'up' },
    pollIntervalMs: 1_000,
    telemetry: createTelemetry(),
    setAsleep: () => Promise.resolve(true),
    source: {
      readWriters: () => Promise.resolve({ decided: 0n, drawn: 0n, open: [] }),
      onReset: () => undefined,
    },
  })

/** Milliseconds until the next look after one that brought so many, for each of these in turn. */
async function pauses(found: readonly number[], more = false): Promise<number[]> {
  const wakeup = startWakeup()
  const measured: number[] = []
  for (const count of found) {
    const at = performance.now()
    const next = wakeup.next({ found: count, more })
    await vi.runAllTimersAsync()
    await next
    measured.push(performance.now() - at)
  }
  return measured
}

test('the first events are followed by another look at once', async () => {
  expect(await pauses([1])).toEqual([0])
})

test('under load looks become rarer until they are worth it, ten milliseconds apart at most', async () => {
  const measured = await pauses(Array.from({ length: 30 }, () => 20))
  expect(measured.slice(0, 6)).toEqual([0, 1, 1, 1, 2, 3])
  expect(measured.at(-1)).toBe(10)
})

test('a look that brings much is followed by the next one at once', async () => {
  expect((await pauses(Array.from({ length: 10 }, () => 500))).at(-1)).toBe(0)
})

test('a look that left something is followed by the next one at once, however little it brought', async () => {
  expect((await pauses([...Array.from({ length: 30 }, () => 20), 0], true)).slice(-3)).toEqual([0, 0, 0])
})

test('few events are not kept waiting, also after a time of load', async () => {
  const measured = await pauses([
    ...Array.from({ length: 30 }, () => 20),
    ...Array.from({ length: 20 }, () => 2),
  ])
  expect(measured.at(-1)).toBe(1)
})
