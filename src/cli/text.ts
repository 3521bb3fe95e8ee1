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
