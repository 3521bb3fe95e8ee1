/** The middle value; with an even number of them the mean of the two in the middle. NaN of nothing. */
export function median(values: readonly number[]): number {
  const sorted = ascending(values)
  const middle = sorted.length / 2
  if (sorted.length % 2 === 1) return sorted[Math.floor(middle)]!
  return sorted.length === 0 ? Number.NaN : (sorted[middle - 1]! + sorted[middle]!) / 2
}

/** The smallest value that at least `percent` per cent of the values do not exceed (nearest rank). NaN of nothing. */
export function percentile(values: readonly number[], percent: number): number {
  if (!(percent >= 0 && percent <= 100)) {
    throw new RangeError(`expected a percentile from 0 to 100, got ${percent}`)
  }
  const sorted = ascending(values)
  if (sorted.length === 0) return Number.NaN
  return sorted[Math.max(0, Math.ceil((percent / 100) * sorted.length) - 1)]!
}

/** How many times `base` goes into `value`; null when one of them is missing or the base is not above 0. */
export function ratio(value: number | null | undefined, base: number | null | undefined): number | null {
  if (value == null || base == null || !Number.isFinite(value) || !Number.isFinite(base)) return null
  return base > 0 ? value / base : null
}

/**
 * The median of the ratios of one round each: what disturbs a round disturbs both of its sides. Rounds in which one
 * side is missing do not count; null when none is left.
 */
export function ratioOfRounds(values: readonly Measured[], bases: readonly Measured[]): number | null {
  const ratios = values.flatMap((value, round) => ratio(value, bases[round]) ?? [])
  return ratios.length === 0 ? null : median(ratios)
}

/** One round's figure; null or undefined when there is none. */
export type Measured = number | null | undefined

/** Largest distance of a value from the median, as a part of the median: how much the rounds differ. */
export function spread(values: readonly number[]): number {
  const middle = median(values)
  return Math.max(0, ...values.map((value) => Math.abs(value - middle))) / middle
}

/** Three significant digits: what a shared machine can tell apart. Null stays null. */
export function rounded(value: number | null): number | null {
  return value === null || !Number.isFinite(value) ? null : Number(value.toPrecision(3))
}

function ascending(values: readonly number[]): number[] {
  return [...values].sort((a, b) => a - b)
}
