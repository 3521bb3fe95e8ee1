/** How many index entries one step of a walk looks at. */
export interface WindowSize {
  readonly rows: number
  /** A step over so many rows took so long: decides about the next one. */
  took(ms: number): void
}

/**
 * A step that takes longer makes the next one smaller, in milliseconds. Rows that lie on pages of their own, on a slow
 * and cold disk, cost a thousand times as much as neighbours in memory: a number of rows alone bounds nothing.
 */
const aimMs = 250

/** Grows from `first` up to `most` rows while statements are quick, and shrinks down to `least` when they are not. */
export function createWindowSize({
  first,
  most,
  least = 100,
}: {
  first: number
  most: number
  least?: number
}): WindowSize {
  let rows = first
  return {
    get rows() {
      return rows
    },
    took(ms) {
      // At most fourfold, since the next rows may lie in another place.
      const factor = Math.min(4, aimMs / Math.max(1, ms))
      rows = Math.max(least, Math.min(most, Math.round(rows * factor)))
    },
  }
}
