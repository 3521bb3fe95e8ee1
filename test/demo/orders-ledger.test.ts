import { describe, expect, it } from 'vitest'
import { type Ledger, createLedger } from '../../examples/orders/ledger.ts'

const bodies: Record<string, string> = { a1: '{"n": 1.10}', a2: '{"n": 2}', a3: '{"n": 3}', b1: '{"n": 9}' }
const stored = new Map(Object.entries(bodies))

/** Two aggregates: three events of one, one of the other, and deliveries in the order given. */
function ledgerOf(deliveries: readonly (string | [id: string, body: string])[]): Ledger {
  const ledger = createLedger()
  for (const delivery of deliveries) {
    const [id, body] = typeof delivery === 'string' ? [delivery, bodies[delivery] ?? '{}'] : delivery
    ledger.received({ id, body })
  }
  // A fast receiver knows of an event before its writer has the answer to its COMMIT.
  for (const id of Object.keys(bodies)) ledger.committed({ id, aggregate: id[0]!, version: Number(id[1]) })
  return ledger
}

describe('the ledger of the demo', () => {
  it('has nothing to say when everything arrived in order, some of it twice', () => {
    const ledger = ledgerOf(['a1', 'b1', 'a2', 'a1', 'a2', 'a3'])
    expect(ledger.compare(stored)).toEqual({
      summary: { written: 4, delivered: 4, duplicates: 2, out_of_order: 0, lost: 0 },
      problems: [],
    })
    expect([ledger.written, ledger.delivered, ledger.duplicates]).toEqual([4, 4, 2])
  })

  it('finds what never arrived, and does not take the gap for disorder', () => {
    const { summary, problems } = ledgerOf(['a1', 'a3', 'b1']).compare(stored)
    expect(summary).toEqual({ written: 4, delivered: 3, duplicates: 0, out_of_order: 0, lost: 1 })
    expect(problems).toEqual(['1 events were committed and never arrived: a2'])
  })

  it('finds a first delivery that came after a later one of its aggregate', () => {
    const { summary, problems } = ledgerOf(['a2', 'a1', 'b1', 'a3']).compare(stored)
    expect(summary).toEqual({ written: 4, delivered: 4, duplicates: 0, out_of_order: 1, lost: 0 })
    expect(problems).toEqual(['1 events arrived after a later event of their aggregate: a1'])
  })

  it('finds events that nobody committed', () => {
    const { summary, problems } = ledgerOf(['a1', 'a2', 'a3', 'b1', 'ghost']).compare(stored)
    expect(summary).toMatchObject({ written: 4, delivered: 4, lost: 0 })
    expect(problems).toEqual(['1 events arrived and were never committed: ghost'])
  })

  it('finds a body that differs in a single character, at the first delivery or at a later one', () => {
    const once = ledgerOf([['a1', '{"n": 1.1}'], 'a2', 'a3', 'b1']).compare(stored)
    expect(once.problems).toEqual(['1 events arrived with other bytes than the table holds: a1'])
    const twice = ledgerOf(['a1', 'a2', 'a3', 'b1', ['b1', '{"n":9}']]).compare(stored)
    expect(twice.problems).toEqual(['1 events arrived twice with different bytes: b1'])
  })
})
