import type { Connection } from '../database/connection.ts'
import { failureOf, isLockTimeout } from '../database/failures.ts'
import { createSharedAbort, pause as pauseFor } from '../pause.ts'
import type { Entry } from './aggregate.ts'
import { createFifo } from './fifo.ts'
import {
  type Settlement,
  type SettlementStatement,
  bucketOf,
  byPosition,
  idsOf,
  isUndoneByRetry,
  statementFor,
  statementOf,
} from './settlement.ts'
import type { Statements } from './statements.ts'

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
  /**
   * Nobody knows whether these are in the table: an answer was lost, and dead letters of their buckets were put back
   * meanwhile. What the table says is to be read again.
   */
  onOutdated: (settlements: readonly Settlement[]) => void
  /** The database did not take it; it is tried again. */
  onError: (error: unknown) => void
  /** The database answered a statement of settlements, whatever the answer. */
  onAnswer: () => void
  /** Resolves when the next try may be made. */
  pause: () => Promise<void>
}

/** Writes settlements in batches, in the order of their arrival for each event, one statement under way at a time. */
export interface Settler {
  settle(settlement: Settlement): void
  /** Puts it on record that these events are about to be tried with care; answers those that still are ours. */
  suspect(entries: readonly Entry[]): Promise<readonly Entry[]>
  /**
   * Makes dead letters pending again once everything handed in before is worked off, whoever owns their buckets by
   * then; tried until it works. Answers how many.
   */
  restore(entries: readonly Entry[]): Promise<number>
  /** Settlements and restores that are not worked off yet. */
  readonly pending: number
  /** Resolves when everything handed in until now is written and told, or given up, whatever comes after it. */
  flushed(): Promise<void>
  /** Resolves when nothing is left to write; as long as events are published that may be never. */
  idle(): Promise<void>
  /** Gives up what is not yet written. */
  stop(): void
}

/** The buckets that are still ours, and those of them of which dead letters were put back meanwhile. */
interface Answer {
  held: number[]
  rescans: Record<number, string> | null
}

const maxPerStatement = 5000
/** A statement that the server refused so often is split: too much for one, or it holds an event that never works. */
const refusalsUntilSplit = 2
/** After that one event is tried again so much later, in milliseconds. */
const refusedAsideMs = 10_000
/** Events that somebody else has locked are looked at again so much later, in milliseconds. */
const lockedAsideMs = 1_000

export function createSettler(options: SettlerOptions): Settler {
  const { connection, statements, relayId, settle, onSettled, onLost, onOutdated, onError, onAnswer, pause } =
    options
  let waiting: Settlement[] = []
  /** In the table, and not yet told. */
  let written: Settlement[] = []
  let running = false
  /** Settlements so far, and how many of them are written or given up: they are worked off in their order. */
  let handedIn = 0
  let done = 0
  const barriers = createFifo<{ at: number; open: () => void }>()
  const restoring = new Set<Promise<number>>()
  /** What is not written for now, until it is tried again. */
  const aside = new Set<Promise<void>>()
  /** Settlements that the server refused by themselves: each has its own statement. */
  const refused = new Set<Settlement>()
  /** Settlements of events that somebody else had locked. */
  const locked = new Set<Settlement>()
  const stopping = createSharedAbort()
  let stopped = false

  function fenceOf(entries: readonly Entry[]): [string, number[], string[]] {
    const buckets = new Map<number, string>()
    for (const { aggregate } of entries) buckets.set(aggregate.bucket.bucket, aggregate.bucket.epoch)
    return [relayId, [...buckets.keys()], [...buckets.values()]]
  }

  async function run(): Promise<void> {
    running = true
    while (waiting.length > 0 && !stopped) {
      const taken = waiting.slice(0, maxPerStatement)
      waiting = waiting.slice(maxPerStatement)
      const batch = locked.size > 0 ? await keepUnlocked(taken) : taken
      const groups = groupsOf(batch)
      for (const statement of ['published', 'intents', 'failed', 'dead', 'survived'] as const) {
        const group = groups[statement]
        if (group !== undefined) await writeUntilDone(group)
      }
      for (const settlement of batch) if (refused.delete(settlement)) await writeOnce([settlement])
      done += taken.length
      // What is waiting by now goes out first, unless somebody waits to hear of these.
      if (waiting.length === 0 || stopped || isDue()) tell()
      while (isDue()) barriers.shift()!.open()
    }
    if (stopped) giveUp()
    // In the same moment in which nothing more was found: what comes next starts it again.
    running = false
  }

  /** What goes out in one statement each. */
  function groupsOf(batch: readonly Settlement[]): Partial<Record<SettlementStatement, Settlement[]>> {
    const groups: Partial<Record<SettlementStatement, Settlement[]>> = {}
    for (const one of batch) if (!refused.has(one)) (groups[statementOf(one)] ??= []).push(one)
    return groups
  }

  /** Somebody waits for no more than what is done. */
  function isDue(): boolean {
    return (barriers.peek()?.at ?? Infinity) <= done
  }

  function giveUp(): void {
    waiting = []
    done = handedIn
    while (isDue()) barriers.shift()!.open()
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
    const rescans = rescansOf(left)
    // A statement whose answer was lost may have worked, or may still come to work.
    let uncertain = false
    let refusals = 0
    while (left.length > 0 && !stopped) {
      try {
        const held = await write(left, rescans)
        if (left.every((one) => held.get(bucketOf(one)) === rescans.get(bucketOf(one))))
          return void written.push(...left)
        // A token that is not ours any more, or letters that were put back: nothing of the statement took effect.
        const lost = left.filter((settlement) => !held.has(bucketOf(settlement)))
        const changed = left.filter((settlement) => {
          const rescan = held.get(bucketOf(settlement))
          return rescan !== undefined && rescan !== rescans.get(bucketOf(settlement))
        })
        const outdated = uncertain ? changed : []
        const given = new Set([...lost, ...outdated])
        left = left.filter((settlement) => !given.has(settlement))
        for (const [bucket, rescan] of held) rescans.set(bucket, rescan)
        if (lost.length > 0) onLost(lost)
        if (outdated.length > 0) onOutdated(outdated)
      } catch (error) {
        const isRefused = failureOf(error) === 'statement'
        uncertain ||= !isRefused
        await recover(error)
        if (isLockTimeout(error)) {
          for (const settlement of left) locked.add(settlement)
          left = await keepUnlocked(left)
          continue
        }
        if (isRefused && ++refusals === refusalsUntilSplit) return split(left)
      }
    }
  }

  async function split(group: readonly Settlement[]): Promise<void> {
    if (group.length === 1) return setAside(group, refused, refusedAsideMs)
    const half = Math.ceil(group.length / 2)
    await writeOnce(group.slice(0, half))
    await writeOnce(group.slice(half))
  }

  /** Tries these again later, as members of `kind`. */
  function setAside(group: readonly Settlement[], kind: Set<Settlement>, afterMs: number): void {
    const again = pauseFor(afterMs, stopping.signal).then(() => {
      aside.delete(again)
      for (const settlement of group) {
        kind.add(settlement)
        handIn(settlement)
      }
    })
    aside.add(again)
  }

  /** Of a batch what nobody else has locked, as far as that was not known already; the rest is set aside. */
  async function keepUnlocked(batch: readonly Settlement[]): Promise<Settlement[]> {
    const doubtful = batch.filter((settlement) => locked.delete(settlement))
    if (doubtful.length === 0) return [...batch]
    const ids = await findLocked(doubtful)
    const others = doubtful.filter(({ entry }) => ids.has(entry.event.id))
    if (others.length > 0) setAside(others, locked, lockedAsideMs)
    const kept = new Set(others)
    return batch.filter((settlement) => !kept.has(settlement))
  }

  async function findLocked(group: readonly Settlement[]): Promise<ReadonlySet<string>> {
    const ids = idsOf(group.map((settlement) => settlement.entry))
    while (!stopped) {
      try {
        const { rows } = await connection.query<{ id: string }>(statements.findLocked, [ids])
        return new Set(rows.map((row) => row.id))
      } catch (error) {
        await recover(error)
      }
    }
    return new Set()
  }

  async function recover(error: unknown): Promise<void> {
    onError(error)
    if (failureOf(error) === 'statement') connection.reset()
    await pause()
  }

  /** Answers the buckets that are still ours, each with the number of its last rescan. */
  async function write(
    group: readonly Settlement[],
    rescans: ReadonlyMap<number, string>,
  ): Promise<ReadonlyMap<number, string>> {
    const entries = group.map((settlement) => settlement.entry)
    const fence = fenceOf(entries)
    const [text, name, columns] = statementFor(statements, group, settle)
    const values = [...fence, idsOf(entries), ...columns]
    if (isUndoneByRetry(group[0]!)) values.push(fence[1].map((bucket) => rescans.get(bucket)))
    const answer = connection.query<Answer>(text, values, { name })
    // What the last statement settled is worked off while the server works at this one, which leaves first.
    setImmediate(tell)
    const { rows } = await answer
    onAnswer()
    const { held, rescans: raised } = rows[0]!
    return new Map(held.map((bucket) => [bucket, raised?.[bucket] ?? rescans.get(bucket)!]))
  }

  async function restoreUntilDone(entries: readonly Entry[]): Promise<number> {
    const buckets = new Set(entries.map((entry) => entry.aggregate.bucket.bucket))
    await flushed()
    while (!stopped) {
      try {
        const values = [idsOf(entries), [...buckets]]
        const { rows } = await connection.query<{ restored: number }>(statements.restoreDead, values)
        onAnswer()
        return rows[0]!.restored
      } catch (error) {
        await recover(error)
      }
    }
    return 0
  }

  function flushed(): Promise<void> {
    if (done === handedIn) return Promise.resolve()
    return new Promise((open) => barriers.push({ at: handedIn, open }))
  }

  function handIn(settlement: Settlement): void {
    waiting.push(settlement)
    handedIn++
    if (!running) void run()
  }

  const pending = () => handedIn - done + restoring.size + aside.size

  return {
    get pending() {
      return pending()
    },
    settle: handIn,
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
      const work = restoreUntilDone(entries)
      restoring.add(work)
      try {
        return await work
      } finally {
        restoring.delete(work)
      }
    },
    flushed,
    async idle() {
      while (pending() > 0) await Promise.all([flushed(), ...restoring, ...aside])
    },
    stop() {
      stopped = true
      stopping.abort()
    },
  }
}

function rescansOf(group: readonly Settlement[]): Map<number, string> {
  const rescans = new Map<number, string>()
  for (const { entry } of group) rescans.set(entry.aggregate.bucket.bucket, entry.aggregate.bucket.rescan)
  return rescans
}
