import type { Pool } from 'pg'
import type { Acknowledged } from './network.ts'
import type { Saved } from './notes-service.ts'
import type { Summary } from '../support/findings.ts'

/**
 * Two accounts that know nothing of each other: what the writers know that they committed, and what the consumer has
 * acknowledged and written down. It asks neither the outbox nor the relay.
 */
export function createLedger() {
  const committed = new Map<string, Saved>()
  const newest = new Map<string, number>()
  const acknowledged = new Map<string, number>()

  return {
    committed(saved: Saved): void {
      newest.set(saved.id, Math.max(saved.revision, newest.get(saved.id) ?? 0))
      if (saved.eventId !== null) committed.set(saved.eventId, saved)
    },
    acknowledged({ eventId }: Acknowledged): void {
      acknowledged.set(eventId, (acknowledged.get(eventId) ?? 0) + 1)
    },
    get written() {
      return committed.size
    },
    /** Of what was written: an intent that somebody decided by hand is no event of the service. */
    get delivered() {
      return [...committed.keys()].filter((id) => acknowledged.has(id)).length
    },
    get duplicates() {
      return [...acknowledged.values()].reduce((sum, times) => sum + times - 1, 0)
    },
    /** @param pool of the public list */
    async compare(pool: Pool): Promise<{ summary: Summary; problems: string[] }> {
      const { rows: applied } = await pool.query<{ id: string; revision: number }>(
        'SELECT id, revision FROM applied ORDER BY n',
      )
      const { rows: shown } = await pool.query<{ id: string; revision: number }>(
        'SELECT id, revision FROM public_notes',
      )
      const last = new Map<string, number>()
      const backwards: string[] = []
      for (const { id, revision } of applied) {
        if (revision <= (last.get(id) ?? 0)) backwards.push(`${id}:${revision}`)
        last.set(id, revision)
      }
      const lost = [...committed.values()].filter(({ eventId }) => !acknowledged.has(eventId!))
      const visible = new Map(shown.map(({ id, revision }) => [id, revision]))
      const old = [...newest].filter(([id, revision]) => visible.get(id) !== revision)
      return {
        summary: {
          written: committed.size,
          delivered: committed.size - lost.length,
          duplicates: this.duplicates,
          out_of_order: backwards.length,
          lost: lost.length,
        },
        problems: [
          ...problem(
            lost.map(({ id, revision }) => `${id}:${revision}`),
            'were committed and never taken',
          ),
          ...problem(backwards, 'were applied a second time, or after a later one'),
          ...problem(
            old.map(([id, revision]) => `${id}:${revision}`),
            'are the newest and not what readers see',
          ),
        ],
      }
    },
  }
}

export type Ledger = ReturnType<typeof createLedger>

function problem(keys: readonly string[], what: string): string[] {
  if (keys.length === 0) return []
  return [`${keys.length} revisions ${what}: ${keys.slice(0, 3).join(', ')}${keys.length > 3 ? ', …' : ''}`]
}
