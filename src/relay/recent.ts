import type { Writers } from './source.ts'

/** A transaction that is open for longer, in milliseconds, is waited for by nobody. */
const longMs = 1_000

interface Sample {
  readonly at: number
  readonly drawn: bigint
  readonly open: ReadonlySet<string>
}

/** Where what is written now lies, whatever transactions have been open for long. */
export interface Recent {
  /** Only a transaction that has been open for long can still bring something in at or below; 0: not known yet. */
  readonly position: bigint
  /** Takes in a look at who is writing. True when one has ended that had been open for long: read below, too. */
  add(writers: Pick<Writers, 'drawn' | 'open'>, now: number): boolean
  reset(): void
}

/**
 * The low-water mark stays where the oldest open transaction put it. With much above it that is known and must stay in
 * the table, reading all of that again at each look would cost too much: most looks begin at this position, which
 * is the last number drawn a second ago. Whoever was writing then and has ended since was still writing at the
 * look before: such an end is noticed.
 */
export function createRecent(): Recent {
  let samples: Sample[] = []
  let position = 0n
  return {
    get position() {
      return position
    },
    add({ drawn, open }, now) {
      const previous = samples.at(-1)
      const current = { at: now, drawn, open: new Set(open) }
      samples.push(current)
      const newer = samples.findIndex(({ at }) => at > now - longMs)
      samples = samples.slice(Math.max(0, newer - 1))
      const base = samples[0]!
      if (base.at > now - longMs) return false
      position = base.drawn
      return [...base.open].some((writer) => previous?.open.has(writer) === true && !current.open.has(writer))
    },
    reset() {
      samples = []
      position = 0n
    },
  }
}
