/**
 * Text from the database or a broker, safe for a terminal: control and direction characters, which could move the
 * cursor or hide text, are written as escapes.
 */
export function printable(text: string): string {
  return text.replaceAll(
    /[\u0000-\u001f\u007f-\u009f\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g,
    (character) =>
      character === '\n' ? '\\n' : `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )
}

const wide =
  /\p{Emoji_Presentation}|[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6]/u
const zero = /^(?:\p{M}|[\u200b-\u200d])$/u

/** How many columns of a terminal a text takes. */
export function columnsOf(text: string): number {
  let columns = 0
  for (const character of text) columns += zero.test(character) ? 0 : wide.test(character) ? 2 : 1
  return columns
}

/** Cut to a number of columns, with an ellipsis. */
export function cut(text: string, limit: number): string {
  if (columnsOf(text) <= limit) return text
  let result = ''
  let columns = 0
  for (const character of text) {
    columns += columnsOf(character)
    if (columns >= limit) break
    result += character
  }
  return `${result}…`
}

/** `1 event`, `2 events`, `1,234 events`. */
export function plural(count: number, noun: string): string {
  return `${count.toLocaleString('en')} ${noun}${count === 1 ? '' : 's'}`
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
