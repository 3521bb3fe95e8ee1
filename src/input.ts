import { userInfo } from 'node:os'
import { WaybillError } from './errors.ts'
import { type EventState, eventStates } from './types.ts'
import { closest, show } from './wording.ts'

// Checks of what people ask for. Everything here throws USAGE_INVALID with one sentence.

const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i

export function usageInvalid(message: string): WaybillError {
  return new WaybillError('USAGE_INVALID', message)
}

export function isEventId(id: unknown): id is string {
  return typeof id === 'string' && uuid.test(id)
}

/** An event id in lower case. */
export function checkEventId(id: unknown): string {
  if (isEventId(id)) return id.toLowerCase()
  throw usageInvalid(
    `expected an event id to be a UUID such as 0197c3a0-5b7e-7c1d-9a55-3f0c8e3f2b10, got ${show(id)}`,
  )
}

export function checkLimit(limit: unknown, max = 1000): number {
  if (typeof limit === 'number' && Number.isInteger(limit) && limit >= 1 && limit <= max) return limit
  throw usageInvalid(`expected limit to be an integer from 1 to ${max}, got ${show(limit)}`)
}

export function checkStates(states: readonly string[]): readonly EventState[] {
  for (const state of states) {
    if ((eventStates as readonly string[]).includes(state)) continue
    const meant = closest(state, eventStates)
    throw usageInvalid(
      `unknown state ${show(state)}, ${meant === undefined ? `expected one of ${eventStates.join(', ')}` : `did you mean ${show(meant)}?`}`,
    )
  }
  return states as readonly EventState[]
}

/** Text that PostgreSQL can compare: a U+0000 would fail there. */
export function checkText(name: string, text: unknown, max = 255): string {
  if (typeof text === 'string' && text !== '' && [...text].length <= max && !text.includes('\u0000')) {
    if (text.isWellFormed()) return text
  }
  throw usageInvalid(`expected ${name} to be text of 1 to ${max} characters, got ${show(text)}`)
}

const moment = /^\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d{1,6})?)?(?:Z|[+-]\d{2}:?\d{2}))?$/

/** A moment for PostgreSQL: a date means its first instant in UTC, a time of day needs its zone. */
export function checkMoment(name: string, text: unknown): string {
  if (typeof text === 'string' && moment.test(text) && !Number.isNaN(Date.parse(text.replace(' ', 'T')))) {
    return text.length === 10 ? `${text}T00:00:00Z` : text
  }
  throw usageInvalid(
    `expected ${name} to be a date such as 2026-03-01 or a time such as 2026-03-01T12:00:00Z, got ${show(text)}`,
  )
}

/** Why somebody decided something: at least a word, so that the dots of a suggested command are none. */
export function checkReason(reason: unknown): string {
  if (typeof reason === 'string' && /[\p{L}\p{N}]/u.test(reason))
    return checkText('reason', reason.trim(), 1000)
  throw usageInvalid('a reason is needed: say in a few words why, it is kept with the decision')
}

/** Who decides when nobody says so: the user of the operating system. */
export function currentUser(): string {
  try {
    return userInfo().username
  } catch {
    // A container may run under a number that has no name.
    return process.env['USER'] ?? `uid ${process.getuid?.() ?? 'unknown'}`
  }
}
