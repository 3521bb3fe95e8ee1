import { uuidArray } from '../database/uuid-array.ts'
import { cleanText, describeError } from '../errors.ts'
import type { Entry } from './aggregate.ts'
import type { Statements } from './statements.ts'

/** What became of an event, to be written into its row. */
export type Settlement =
  | { readonly kind: 'published'; readonly entry: Entry; readonly receipt: string | null }
  | {
      readonly kind: 'failed'
      readonly entry: Entry
      readonly attempts: number
      readonly pauseMs: number
      readonly error: string
    }
  | {
      readonly kind: 'dead'
      readonly entry: Entry
      readonly attempts: number
      readonly holds: boolean
      readonly error: string
    }
  /** Tried with care, nothing came of it, but the relay lives; or not tried: so many deaths stay on record. */
  | { readonly kind: 'survived'; readonly entry: Entry; readonly crashes: number }

const maxErrorLength = 2000
const maxReceiptLength = 500

export function bucketOf({ entry }: Settlement): number {
  return entry.aggregate.bucket.bucket
}

/** What putting back a dead letter takes back: it must not come to the table after that. */
export function isUndoneByRetry({ kind }: Settlement): boolean {
  return kind === 'failed' || kind === 'dead'
}

/** A published intent has a statement of its own: its publication learns of it. */
export type SettlementStatement = Settlement['kind'] | 'intents'

export function statementOf({ kind, entry }: Settlement): SettlementStatement {
  return kind === 'published' && entry.event.revision !== null ? 'intents' : kind
}

/** The ids of events as a parameter of type uuid[]. */
export function idsOf(entries: readonly Entry[]): Buffer {
  return uuidArray(entries.map(({ event }) => event.id))
}

/** Rows that were written together lie together. */
export function byPosition(a: Settlement, b: Settlement): number {
  return a.entry.event.position < b.entry.event.position ? -1 : 1
}

/** The statement for settlements of one kind, its name, and its parameters behind the events' ids. */
export function statementFor(
  statements: Statements,
  group: readonly Settlement[],
  settle: 'mark' | 'delete',
): [text: string, name: string, columns: (unknown[] | null)[]] {
  switch (statementOf(group[0]!)) {
    case 'published':
      if (settle === 'delete') return [statements.removePublished, 'waybill_removed', []]
      return [statements.markPublished, 'waybill_published', [receiptsOf(group)]]
    case 'intents':
      return [statements.markPublishedIntents, 'waybill_published_intents', [receiptsOf(group)]]
    case 'failed':
      return [
        statements.markFailed,
        'waybill_failed',
        [
          pick(group, 'failed', (s) => s.attempts),
          pick(group, 'failed', (s) => s.pauseMs),
          pick(group, 'failed', (s) => s.error),
        ],
      ]
    case 'dead':
      return [
        statements.markDead,
        'waybill_dead',
        [
          pick(group, 'dead', (s) => s.attempts),
          pick(group, 'dead', (s) => s.holds),
          pick(group, 'dead', (s) => s.error),
        ],
      ]
    case 'survived':
      return [statements.markSuspect, 'waybill_suspect', [pick(group, 'survived', (s) => s.crashes)]]
  }
}

/** Where no event has a receipt, NULL stands for as many NULLs. */
function receiptsOf(group: readonly Settlement[]): (string | null)[] | null {
  if (!group.some((s) => s.kind === 'published' && s.receipt !== null)) return null
  return pick(group, 'published', ({ receipt }) =>
    receipt === null ? null : cleanText(receipt, maxReceiptLength),
  )
}

function pick<Kind extends Settlement['kind'], Value>(
  group: readonly Settlement[],
  kind: Kind,
  of: (settlement: Extract<Settlement, { kind: Kind }>) => Value,
): Value[] {
  return group.map((settlement) => {
    if (settlement.kind !== kind)
      throw new Error(`a group of settlements holds ${settlement.kind} beside ${kind}`)
    return of(settlement as Extract<Settlement, { kind: Kind }>)
  })
}

/** An error as it goes into `last_error`: clean, bounded, whatever was thrown. */
export function errorText(error: unknown): string {
  return describeError(error, maxErrorLength)
}
