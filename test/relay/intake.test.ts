import { describe, expect, test } from 'vitest'
import { type ModelOptions, createModel } from './intake-model.ts'

/** Each seed is another course of events. */
const seeds = process.env['WAYBILL_TEST_LONG'] === '1' ? 1_000 : 25

const usual: Omit<ModelOptions, 'seed'> = {
  ...{ buckets: 3, aggregates: 12, destinations: 2, capacity: 20, perAggregate: 4 },
  ...{ mixed: 0.5, failing: 0.1, losing: false, stalling: false },
}
const little: Partial<ModelOptions> = {
  ...{ stalling: true, failing: 0, buckets: 1, capacity: 6, perAggregate: 2 },
}
const nothing = { events: 0, bytes: 0, owing: 0, resumable: 0, aggregates: 0, arrears: 0 }

describe('whatever happens', () => {
  test.for<[string, Partial<ModelOptions>]>([
    ['two destinations', {}],
    ['one destination', { destinations: 1 }],
    ['five destinations, one bucket', { destinations: 5, buckets: 1, aggregates: 30 }],
    ['aggregates that each go to one destination', { mixed: 0, aggregates: 40 }],
    ['aggregates that go everywhere', { mixed: 1, aggregates: 40, destinations: 3 }],
    ['few aggregates with many events', { aggregates: 3, buckets: 1 }],
    ['nothing that fails', { failing: 0 }],
    ['buckets that are lost', { losing: true }],
    ['a slow destination', { stalling: true, failing: 0, buckets: 1, aggregates: 40, mixed: 0.2 }],
    [
      'a slow destination of three',
      { stalling: true, failing: 0, buckets: 1, aggregates: 200, destinations: 3 },
    ],
    ['a slow destination and little memory', { ...little, aggregates: 8, mixed: 0 }],
    ['a slow destination, little memory and failures', { ...little, mixed: 0.3, failing: 0.05 }],
    ['a slow destination to which all go', { stalling: true, failing: 0.02, buckets: 2, mixed: 1 }],
  ])(
    'order is kept, nothing is lost, and nothing is left behind: %s',
    { timeout: 120_000 },
    ([, options]) => {
      for (let seed = 1; seed <= seeds; seed++) {
        const model = createModel({ ...usual, ...options, seed })
        model.run(1500)
        const rounds = model.finish(3000)
        const { outOfOrder, duplicates, undelivered, leftovers, mostInMemory } = model
        expect({ seed, outOfOrder }).toEqual({ seed, outOfOrder: [] })
        expect({ seed, undelivered, late: rounds === Infinity }).toEqual({
          seed,
          undelivered: 0,
          late: false,
        })
        expect({ seed, leftovers }).toEqual({ seed, leftovers: nothing })
        if (options.losing !== true) expect({ seed, duplicates }).toEqual({ seed, duplicates: 0 })
        // A read may bring up to what a read brings beyond what there is room for.
        expect(mostInMemory).toBeLessThan(usual.capacity * 8)
      }
    },
  )
})
