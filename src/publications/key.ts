import { usageInvalid, checkText } from '../input.ts'
import { show } from '../wording.ts'

/** One publication of one revision. Compared part by part: the printed form is never split. */
export interface PublicationKey {
  readonly type: string
  readonly id: string
  readonly revision: bigint
  readonly scope: string
}

/** An event without a revision: no publication, so that it is known by its own id alone. */
export interface EventKey {
  readonly type: string
  readonly id: string
  readonly revision: null
  readonly scope: string
  readonly eventId: string
  readonly eventType: string
}

/** What a trace is about. */
export type TraceKey = PublicationKey | EventKey

/** The condition and its values for the row `e` of the outbox. Index outbox_events_revision, or the primary key. */
export function eventOf(key: TraceKey): { readonly where: string; readonly values: readonly string[] } {
  if (key.revision === null) return { where: 'e.id = $1::text::uuid', values: [key.eventId] }
  return {
    where: `e.aggregate_type = $1::text AND e.aggregate_id = $2::text AND e.intent_scope = $3::text
         AND e.revision = $4::text::bigint`,
    values: [key.type, key.id, key.scope, String(key.revision)],
  }
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
