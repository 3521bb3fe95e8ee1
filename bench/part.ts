import type { Children } from './children.ts'
import type { Scale } from './scale.ts'

/** What a part of the benchmark gets. */
export interface Context {
  scale: Scale
  children: Children
  /** Says what is going on. */
  log: (text: string) => void
  /** Keys of those that drain; undefined: all of them. */
  contestants: readonly string[] | undefined
  /** Pretend that PostgreSQL's client programs are not there. */
  withoutTools: boolean
  /** Where to write CPU profiles of the relays. */
  profileFolder: string | undefined
}

/** A table of the results, with what has to be said about it. */
export interface Section {
  title: string
  notes: readonly string[]
  head: readonly string[]
  rows: readonly (readonly (string | number | null)[])[]
}

/** A figure, or the reason why there is none. */
export type Figure = number | { missing: string }

/** The outcome of one part. `figures` by path: `drain.vs_article`. */
export interface PartResult {
  figures: Record<string, Figure>
  sections: readonly Section[]
}

export interface Part {
  name: string
  /** Every figure that it owes; those that it does not reach are null with a reason. */
  owes: readonly string[]
  run(context: Context): Promise<PartResult>
}

/** A figure with three digits; what cannot be computed says why. */
export function figure(value: number | null, missing: string): Figure {
  return value === null || !Number.isFinite(value) ? { missing } : Number(value.toPrecision(3))
}

/** 12 345 with a thin space for the thousands. */
export function thousands(value: number): string {
  return Math.round(value)
    .toString()
    .replaceAll(/\B(?=(\d{3})+$)/g, ' ')
}
