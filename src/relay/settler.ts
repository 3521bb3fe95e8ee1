import type { Connection } from '../database/connection.ts'
import { failureOf } from '../database/failures.ts'
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
  /** Tried with care, nothing came of it, but the relay lives. */
  | { readonly kind: 'survived'; readonly entry: Entry }

export interface SettlerOptions {
  connection: Connection
  statements: Statements
  relayId: string
  /** What becomes of the row of a published event that is no intent. */
  settle: 'mark' | 'delete'
  /** These are in the table. */
  onSettled: (settlements: readonly Settlement[]) => void
  /** These changed nothing, since their buckets belong to other relays. */
  onLost: (settlements: readonly Settlement[]) => void
  /** The database did not take it; it is tried again. */
  onError: (error: unknown) => void
  /** Resolves when the next try may be made. */
  pause: () => Promise<void>
}

/** Writes settlements in batches, in the order of their arrival for each event, one statement under way at a time. */
export interface Settler {
  settle(settlement: Settlement): void
  /** Puts it on record that these events are about to be tried with care; answers those that still are ours. */
  suspect(entries: readonly Entry[]): Promise<readonly Entry[]>
  /** Makes the dead letters of buckets that are still ours pending again; tried until it works. Answers how many. */
  restore(entries: readonly Entry[]): Promise<number>
  readonly pending: number
  /** Resolves when everything handed in so far is written or given up. */
  idle(): Promise<void>
  /** Gives up what is not yet written. */
  stop(): void
}

const maxPerStatement = 5000
const maxErrorLength = 2000
const maxReceiptLength = 500

export function createSettler(options: SettlerOptions): Settler {
  const { connection, statements, relayId, settle, onSettled, onLost, onError, pause } = options
  let waiting: Settlement[] = []
  /** In the table, and not yet told. */
  let written: Settlement[] = []
  let running: Promise<void> | undefined
  let inStatement = 0
  let stopped = false

  function fenceOf(entries: readonly Entry[]): [string, number[], string[]] {
    const buckets = new Map<number, string>()
    for (const { aggregate } of entries) buckets.set(aggregate.bucket.bucket, aggregate.bucket.epoch)
    return [relayId, [...buckets.keys()], [...buckets.values()]]
  }

  async function run(): Promise<void> {
    while (waiting.length > 0 && !stopped) {
      const batch = waiting.slice(0, maxPerStatement)
      waiting = waiting.slice(maxPerStatement)
      inStatement = batch.length
      for (const statement of ['published', 'intents', 'failed', 'dead', 'survived'] as const) {
        const group = batch.filter((settlement) => statementOf(settlement) === statement)
        if (group.length > 0) await writeUntilDone(group)
      }
      inStatement = 0
      // What is waiting by now goes out first.
      if (waiting.length === 0 || stopped) tell()
    }
  }

  function tell(): void {
    if (written.length === 0) return
    const settled = written
    written = []
    onSettled(settled)
  }

  async function writeUntilDone(group: readonly Settlement[]): Promise<void> {
    // Two incarnations of one bucket have two tokens: each statement carries one token for each bucket.
    for (let left = group; left.length > 0;) {
      const tokens = new Map<number, string>()
      const now: Settlement[] = []
      const later: Settlement[] = []
      for (const settlement of left) {
        const { bucket, epoch } = settlement.entry.aggregate.bucket
        if ((tokens.get(bucket) ?? epoch) === epoch) {
          tokens.set(bucket, epoch)
          now.push(settlement)
        } else later.push(settlement)
      }
      await writeOnce(now)
      left = later
    }
  }

  async function writeOnce(group: readonly Settlement[]): Promise<void> {
    let left = group.toSorted(byPosition)
    while (left.length > 0 && !stopped) {
      try {
        const held = await write(left)
        const ours = left.filter((settlement) => held.has(settlement.entry.aggregate.bucket.bucket))
        if (ours.length === left.length) return void written.push(...left)
        // One token that is not ours any more, and nothing of the statement took effect: again without those.
        onLost(left.filter((settlement) => !held.has(settlement.entry.aggregate.bucket.bucket)))
        left = ours
      } catch (error) {
        await recover(error)
      }
    }
  }

  async function recover(error: unknown): Promise<void> {
    onError(error)
    if (failureOf(error) === 'statement') connection.reset()
    await pause()
  }

  async function write(group: readonly Settlement[]): Promise<ReadonlySet<number>> {
    const entries = group.map((settlement) => settlement.entry)
    const [text, name, columns] = statementFor(statements, group, settle)
    const answer = connection.query<{ held: number[] }>(
      text,
      [...fenceOf(entries), idsOf(entries), ...columns],
      { name },
    )
    // What the last statement settled is worked off while the server works at this one, which leaves first.
    setImmediate(tell)
    const { rows } = await answer
    return new Set(rows[0]?.held)
  }

  return {
    get pending() {
      return waiting.length + inStatement + written.length
    },
    settle(settlement) {
      waiting.push(settlement)
      running ??= run().finally(() => {
        running = undefined
      })
    },
    async suspect(entries) {
      for (let left = entries; left.length > 0;) {
        const { rows } = await connection.query<{ held: number[] }>(statements.markSuspect, [
          ...fenceOf(left),
          idsOf(left),
          left.map((entry) => entry.crashes + 1),
        ])
        const held = new Set(rows[0]?.held)
        const ours = left.filter((entry) => held.has(entry.aggregate.bucket.bucket))
        if (ours.length === left.length) return ours
        left = ours
      }
      return []
    },
    async restore(entries) {
      while (!stopped) {
        // One bucket that is lost must not keep the others' events buried.
        const ours = entries.filter((entry) => !entry.aggregate.bucket.lost)
        if (ours.length === 0) break
        try {
          const { rowCount } = await connection.query(statements.restoreDead, [...fenceOf(ours), idsOf(ours)])
          onSettled([])
          return rowCount
        } catch (error) {
          await recover(error)
        }
      }
      return 0
    },
    async idle() {
      while (running !== undefined) await running
    },
    stop() {
      stopped = true
    },
  }
}

/** An array of uuid as PostgreSQL reads it: they need no quotes, which costs less than what `pg` does with an array. */
function idsOf(entries: readonly Entry[]): string {
  let list = '{'
  for (const { event } of entries) list += list.length === 1 ? event.id : `,${event.id}`
  return `${list}}`
}

/** Rows that were written together lie together. */
function byPosition(a: Settlement, b: Settlement): number {
  return a.entry.event.position < b.entry.event.position ? -1 : 1
}

/** A published intent has a statement of its own: its publication learns of it. */
function statementOf({ kind, entry }: Settlement): Settlement['kind'] | 'intents' {
  return kind === 'published' && entry.event.revision !== null ? 'intents' : kind
}

/** Where no event has a receipt, NULL stands for as many NULLs. */
function receiptsOf(group: readonly Settlement[]): (string | null)[] | null {
  if (!group.some((s) => s.kind === 'published' && s.receipt !== null)) return null
  return pick(group, 'published', ({ receipt }) =>
    receipt === null ? null : cleanText(receipt, maxReceiptLength),
  )
}

function statementFor(
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
      return [statements.markSurvived, 'waybill_survived', []]
  }
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
