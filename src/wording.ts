import { distance } from 'fastest-levenshtein'

/** The key below a path: `relay.batchSize`, `destinations["a.b"].url`. */
export function joinPath(path: string, key: string): string {
  if (!/^[\w$-]+$/.test(key)) return `${path}[${JSON.stringify(key)}]`
  return path === '' ? key : `${path}.${key}`
}

/** The known word that was probably meant: spelled nearly so, or begun like this one; undefined when none is. */
export function closest(word: string, known: readonly string[]): string | undefined {
  const plain = (text: string) => text.toLowerCase().replaceAll(/[_-]/g, '')
  const written = plain(word)
  const scored = known.map((candidate) => ({ candidate, score: distance(written, plain(candidate)) }))
  const [best] = scored.sort((a, b) => a.score - b.score)
  if (best !== undefined && best.score <= Math.max(word.length < 5 ? 1 : 2, Math.floor(word.length / 3)))
    return best.candidate
  const begun = written.length < 3 ? [] : known.filter((candidate) => plain(candidate).startsWith(written))
  return begun.length === 1 ? begun[0] : undefined
}

/** A value for a message: one line, bounded, and never one that looks like it holds a password. */
export function show(value: unknown): string {
  if (value === undefined) return 'nothing'
  if (typeof value === 'string')
    return looksSecret.test(value)
      ? hide(value)
      : JSON.stringify(value.length > 80 ? `${value.slice(0, 79)}…` : value)
  if (typeof value === 'bigint') return `${value}n`
  if (typeof value === 'function') return 'a function'
  if (typeof value === 'symbol') return 'a symbol'
  if (Array.isArray(value)) return value.length === 0 ? 'an empty list' : 'a list'
  if (typeof value === 'object' && value !== null) return 'an object'
  return `${value as number | boolean | null}`
}
/** Text that may hold a password. */
export const looksSecret = /:\/\/\S*@|password|passwd|secret|token/i

/** A value that must not be printed, for a message. */
export function hide(value: unknown): string {
  if (value === '') return 'an empty text'
  if (typeof value === 'string') return 'a text that is not shown (it may hold a secret)'
  return typeof value === 'number' ? 'a number' : show(value)
}

/**
 * Text from the database or a broker, safe for a terminal or a page: control and direction characters, which could
 * move the cursor or hide text, are written as escapes.
 */
export function printable(text: string): string {
  return text.replaceAll(
    /[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g,
    (character) =>
      character === '\n' ? '\\n' : `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )
}

/** A span of time in its two largest units: `3 d 4 h`, `12 s`. */
export function duration(seconds: number): string {
  const units = [
    ['d', 86_400],
    ['h', 3_600],
    ['min', 60],
    ['s', 1],
  ] as const
  const first = units.findIndex(([, size]) => seconds >= size)
  if (first === -1) return `${Math.max(0, Math.round(seconds * 1000))} ms`
  let rest = Math.floor(seconds)
  return units
    .slice(first, first + 2)
    .map(([unit, size]) => {
      const count = Math.floor(rest / size)
      rest -= count * size
      return count === 0 ? '' : `${count} ${unit}`
    })
    .filter(Boolean)
    .join(' ')
}
