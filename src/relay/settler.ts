import type { Connection } from '../database/connection.ts'
import { failureOf } from '../database/failures.ts'
import { cleanText, describeError } from '../errors.ts'
import type { Entry } from './aggregate.ts'
import { createFifo } from './fifo.ts'
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
  /**
   * Makes the dead letters of buckets that are still ours pending again, once everything handed in before is written;
   * tried until it works. Answers how many.
   */
  restore(entries: readonly Entry[]): Promise<number>
  /** Settlements and restores that are not in the table yet. */
  readonly pending: number
  /** Resolves when everything handed in until now is written or given up, whatever comes after it. */
  written(): Promise<void>
  /** Resolves when nothing is left to write; as long as events are published that may be never. */
  idle(): Promise<void>
  /** Gives up what is not yet written. */
  stop(): void
}

const maxPerStatement = 5000
const maxErrorLength = 2000
const maxReceiptLength = 500

export function createSettler(options: SettlerOptions): Settler {
  const { connection, statements, relayId, onSettled, onLost, onError, pause } = options
  let waiting: Settlement[] = []
  let running = false
  /** Settlements so far, and how many of them are written or given up: they are worked off in their order. */
  let handedIn = 0
  let done = 0
  const barriers = createFifo<{ at: number; open: () => void }>()
  const restoring = new Set<Promise<number>>()
  let stopped = false

  function fenceOf(entries: readonly Entry[]): [string, number[], string[]] {
    const buckets = new Map<number, string>()
    for (const { aggregate } of entries) buckets.set(aggregate.bucket.bucket, aggregate.bucket.epoch)
    return [relayId, [...buckets.keys()], [...buckets.values()]]
  }

  async function run(): Promise<void> {
    running = true
    while (waiting.length > 0 && !stopped) {
      const batch = waiting.slice(0, maxPerStatement)
      waiting = waiting.slice(maxPerStatement)
      for (const kind of ['published', 'failed', 'dead', 'survived'] as const) {
        const group = batch.filter((settlement) => settlement.kind === kind)
        if (group.length > 0) await writeUntilDone(group)
      }
      moveOn(done + batch.length)
    }
    if (stopped) moveOn(handedIn)
    // In the same moment in which nothing more was found: what comes next starts it again.
    running = false
  }

  function moveOn(to: number): void {
    done = to
    while ((barriers.peek()?.at ?? Infinity) <= done) barriers.shift()!.open()
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
        if (ours.length === left.length) return onSettled(left)
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
    const [text, name, columns] = statementFor(statements, group)
    const { rows } = await connection.query<{ held: number[] }>(
      text,
      [...fenceOf(entries), entries.map((entry) => entry.event.id), ...columns],
      { name },
    )
    return new Set(rows[0]?.held)
  }

  async function restoreUntilDone(entries: readonly Entry[]): Promise<number> {
    await written()
    while (!stopped) {
      // One bucket that is lost must not keep the others' events buried.
      const ours = entries.filter((entry) => !entry.aggregate.bucket.lost)
      if (ours.length === 0) break
      try {
        const { rowCount } = await connection.query(statements.restoreDead, [
          ...fenceOf(ours),
          ours.map((entry) => entry.event.id),
        ])
        onSettled([])
        return rowCount
      } catch (error) {
        await recover(error)
      }
    }
    return 0
  }

  function written(): Promise<void> {
    if (done === handedIn) return Promise.resolve()
    return new Promise((open) => barriers.push({ at: handedIn, open }))
  }

  return {
    get pending() {
      return handedIn - done + restoring.size
    },
    settle(settlement) {
      waiting.push(settlement)
      handedIn++
      if (!running) void run()
    },
    async suspect(entries) {
      for (let left = entries; left.length > 0;) {
        const { rows } = await connection.query<{ held: number[] }>(statements.markSuspect, [
          ...fenceOf(left),
          left.map((entry) => entry.event.id),
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
      const work = restoreUntilDone(entries)
      restoring.add(work)
      try {
        return await work
      } finally {
        restoring.delete(work)
      }
    },
    written,
    async idle() {
      while (handedIn > done || restoring.size > 0) await Promise.all([written(), ...restoring])
    },
    stop() {
      stopped = true
    },
  }
}

/** Rows that were written together lie together. */
function byPosition(a: Settlement, b: Settlement): number {
  return a.entry.event.position < b.entry.event.position ? -1 : 1
}

function statementFor(
  statements: Statements,
  group: readonly Settlement[],
): [text: string, name: string, columns: unknown[][]] {
  switch (group[0]!.kind) {
    case 'published': {
      const receipts = group.map((s) =>
        s.kind === 'published' && s.receipt !== null ? cleanText(s.receipt, maxReceiptLength) : null,
      )
      return group.some((s) => s.entry.event.revision !== null)
        ? [statements.markPublishedIntents, 'waybill_published_intents', [receipts]]
        : [statements.markPublished, 'waybill_published', [receipts]]
    }
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
