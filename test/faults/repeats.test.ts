import { expect, test } from 'vitest'
import { repeatedForNoReason } from './fixtures/repeats.ts'
import type { Arrival } from './fixtures/sink.ts'

const sent = (relay: string, sentAt: number): Arrival => ({
  ...{ relay, sentAt, id: 'e-1', aggregate: 'a-1', type: 'ledger.counted', body: '{}' },
})
const fault = (relay: string, what: string, at: number) => ({ relay, what, from: at, to: at })

test('an event that comes again needs something that happened to the relay that had sent it', () => {
  const arrivals = [sent('one', 10_000), sent('two', 11_000)]
  expect(repeatedForNoReason(arrivals, [])).toHaveLength(1)
  expect(repeatedForNoReason(arrivals, [fault('one', 'SIGKILL', 10_500)])).toEqual([])
  expect(repeatedForNoReason(arrivals, [fault('two', 'SIGKILL', 10_500)])).toHaveLength(1)
})

test('a relay that goes on may bring what was under way when it was stopped, and nothing later', () => {
  const arrivals = [sent('successor', 10_000), sent('stopped', 11_000)]
  const stop = fault('stopped', 'SIGSTOP', 8_000)
  expect(repeatedForNoReason(arrivals, [stop, fault('stopped', 'SIGCONT', 10_999)])).toEqual([])
  expect(repeatedForNoReason(arrivals, [stop, fault('stopped', 'SIGCONT', 10_000)])).toHaveLength(1)
  expect(repeatedForNoReason(arrivals, [stop])).toHaveLength(1)
})
