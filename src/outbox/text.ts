import { eventInvalid } from './path.ts'

/** Why PostgreSQL could not store this text, or undefined when it can. */
export function textProblem(text: string): string | undefined {
  if (text.includes('\u0000')) return 'holds the character U+0000, which PostgreSQL cannot store'
  if (!text.isWellFormed())
    return 'holds half of a surrogate pair (was it cut inside an emoji?), which is no valid text'
  return undefined
}

/** Text of `min` to `max` characters as PostgreSQL counts them: an emoji is one, whatever JavaScript says. */
export function checkLength(value: unknown, path: string, min: number, max: number): string {
  const expected = `must be a text of ${min === 0 ? 'at most' : `${min} to`} ${max} characters`
  if (typeof value !== 'string') throw eventInvalid(path, `${expected}, got ${kindOf(value)}`)
  // A character is one or two of JavaScript's units: only between max and 2 × max do they have to be counted.
  const characters = value.length <= max || value.length > 2 * max ? value.length : [...value].length
  if (characters < min) throw eventInvalid(path, `${expected}, got an empty text`)
  if (characters > max) {
    throw eventInvalid(path, `${expected}, got ${value.length > 2 * max ? 'many more' : characters}`)
  }
  const problem = textProblem(value)
  if (problem !== undefined) throw eventInvalid(path, problem)
  return value
}

/** What kind of value this is, without showing it: an event's values never appear in messages. */
export function kindOf(value: unknown): string {
  if (value === undefined || value === null) return String(value)
  if (typeof value === 'number' && !Number.isFinite(value)) return String(value)
  if (Array.isArray(value)) return 'an array'
  return typeof value === 'object' ? 'an object' : `a ${typeof value}`
}
