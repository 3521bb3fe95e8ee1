import { usageInvalid, checkText } from '../input.ts'
import { show } from '../wording.ts'

/** One publication of one revision. Compared part by part: the printed form is never split. */
export interface PublicationKey {
  readonly type: string
  readonly id: string
  readonly revision: bigint
  readonly scope: string
}

const largest = 9_223_372_036_854_775_807n

/**
 * A revision as people write it: digits, leading zeros allowed (`007` is 7).
 *
 * @throws USAGE_INVALID
 */
export function checkRevision(text: unknown): bigint {
  const digits = typeof text === 'bigint' ? String(text) : text
  if (typeof digits === 'string' && /^\d{1,40}$/.test(digits) && BigInt(digits) <= largest)
    return BigInt(digits)
  throw usageInvalid(`expected a revision to be an integer from 0 to ${largest}, got ${show(text)}`)
}

/** @throws USAGE_INVALID */
export function checkScope(scope: unknown): string {
  if (scope === undefined || scope === '') return ''
  return checkText('scope', scope, 100)
}
