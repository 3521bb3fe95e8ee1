import { show } from '../wording.ts'
import { usageInvalid } from './input.ts'

/** Above every position that PostgreSQL can draw. */
export const lastPosition = '9223372036854775807'

/** Where the next page starts: opaque to callers, so that it may hold something else one day. */
export function encodeCursor(position: string): string {
  return Buffer.from(`p:${position}`).toString('base64url')
}

/**
 * The position after which a page starts.
 *
 * @throws USAGE_INVALID
 */
export function decodeCursor(cursor: string | null | undefined): string {
  if (cursor === undefined || cursor === null) return '-1'
  const [, position] = /^p:(\d{1,19})$/.exec(Buffer.from(cursor, 'base64url').toString()) ?? []
  if (
    position === undefined ||
    BigInt(position) > BigInt(lastPosition) ||
    encodeCursor(position) !== cursor
  ) {
    throw usageInvalid(`the cursor ${show(cursor)} is not one of ours, use the "next" of the page before`)
  }
  return position
}
