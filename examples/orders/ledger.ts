import type { Committed } from './orders-service.ts'
import type { Receipt } from './receiver.ts'
import type { Summary } from '../support/findings.ts'

export interface Comparison {
  summary: Summary
  /** One sentence for each thing that must not be. */
  problems: string[]
}

/**
 * Keeps two accounts apart: what the writers know that they committed, and what the receiver got. It asks neither
 * the outbox nor the relay.
 */
export interface Ledger {
  committed(event: Committed): void
  received(receipt: Pick<Receipt, 'id' | 'body'>): void
  readonly written: number
  /** Different events that were received. */
  readonly delivered: number
  readonly duplicates: number
  /** @param stored the text of each payload in the table */
  compare(stored: ReadonlyMap<string, string>): Comparison
}

export function createLedger(): Ledger {
  const written = new Map<string, Committed>()
  // In the order of first delivery, as a Map keeps it.
  const bodies = new Map<string, string>()
  const changed = new Set<string>()
  let duplicates = 0

  function outOfOrder(): string[] {
    const newest = new Map<string, number>()
    const late: string[] = []
    for (const id of bodies.keys()) {
      const event = written.get(id)
      if (event === undefined) continue
      const before = newest.get(event.aggregate) ?? -1
      if (event.version < before) late.push(id)
      newest.set(event.aggregate, Math.max(before, event.version))
    }
    return late
  }

  return {
    committed(event) {
      written.set(event.id, event)
    },
    received({ id, body }) {
      const first = bodies.get(id)
      if (first === undefined) {
        bodies.set(id, body)
        return
      }
      duplicates++
      if (first !== body) changed.add(id)
    },
    get written() {
      return written.size
    },
    get delivered() {
      return bodies.size
    },
    get duplicates() {
      return duplicates
    },
    compare(stored) {
      const lost = [...written.keys()].filter((id) => !bodies.has(id))
      const late = outOfOrder()
      const unknown = [...bodies.keys()].filter((id) => !written.has(id))
      const altered = [...bodies].filter(([id, body]) => written.has(id) && stored.get(id) !== body)
      return {
        summary: {
          written: written.size,
          delivered: written.size - lost.length,
          duplicates,
          out_of_order: late.length,
          lost: lost.length,
        },
        problems: [
          ...problem(lost, 'were committed and never arrived'),
          ...problem(late, 'arrived after a later event of their aggregate'),
          ...problem(unknown, 'arrived and were never committed'),
          ...problem(
            altered.map(([id]) => id),
            'arrived with other bytes than the table holds',
          ),
          ...problem([...changed], 'arrived twice with different bytes'),
        ],
      }
    },
  }
}

function problem(ids: readonly string[], what: string): string[] {
  if (ids.length === 0) return []
  const more = ids.length > 3 ? ', …' : ''
  return [`${ids.length} events ${what}: ${ids.slice(0, 3).join(', ')}${more}`]
}
