import { show } from '../wording.ts'
import { usageInvalid } from '../input.ts'

/** Above every position that PostgreSQL can draw. */
export const lastPosition = '9223372036854775807'

/** Which end of a list comes first, by position. */
export type ListOrder = 'oldest' | 'newest'

/** @throws USAGE_INVALID */
export function checkOrder(order: unknown): ListOrder {
  if (order === 'oldest' || order === 'newest') return order
  throw usageInvalid(`expected order to be oldest or newest, got ${show(order)}`)
}

/** Where a walk begins (exclusive) and where it ends at the latest (inclusive). */
export const edges: Readonly<Record<ListOrder, { readonly start: string; readonly end: string }>> = {
  oldest: { start: '-1', end: lastPosition },
  newest: { start: lastPosition, end: '0' },
}

const marks: Readonly<Record<ListOrder, string>> = { oldest: 'p', newest: 'n' }

/**
 * Where the next page starts, and in which order it goes on: opaque to callers, so that it may hold something else
 * one day.
 */
export function encodeCursor(position: string, order: ListOrder): string {
  return Buffer.from(`${marks[order]}:${position}`).toString('base64url')
}

/**
 * The position after which a page starts, in its order.
 *
 * @throws USAGE_INVALID, also for a cursor of a list in the other order.
 */
export function decodeCursor(cursor: string | null | undefined, order: ListOrder): string {
  if (cursor === undefined || cursor === null) return edges[order].start
  const [, mark, position] = /^([pn]):(\d{1,19})$/.exec(Buffer.from(cursor, 'base64url').toString()) ?? []
  const given: ListOrder = mark === marks.newest ? 'newest' : 'oldest'
  if (
    position === undefined ||
    BigInt(position) > BigInt(lastPosition) ||
    encodeCursor(position, given) !== cursor
  ) {
    throw usageInvalid(`the cursor ${show(cursor)} is not one of ours, use the "next" of the page before`)
  }
  if (given !== order) {
    throw usageInvalid(
      `the cursor ${show(cursor)} belongs to a list with the ${given} events first, ask for the same order again or leave the cursor out`,
    )
  }
  return position
}
