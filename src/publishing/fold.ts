import type { FoldRules } from './bindings.ts'
import type { HeaderPair } from './headers.ts'

/**
 * The headers for a broker that takes only a few, and not every text in them. Ours stay headers of their own, in
 * their order, as far as there are places and as far as the broker can carry the value. The event's own headers, and
 * what of ours found no place, become one header more: a JSON object of names and texts. So nothing is lost.
 */
export function foldHeaders(
  ours: readonly HeaderPair[],
  own: readonly HeaderPair[],
  { limit, into, carries }: FoldRules,
): HeaderPair[] {
  const allFit = own.length === 0 && ours.length <= limit && ours.every(([, value]) => carries(value))
  const places = allFit ? limit : limit - 1
  const kept: HeaderPair[] = []
  const folded: HeaderPair[] = []
  for (const pair of ours) (kept.length < places && carries(pair[1]) ? kept : folded).push(pair)
  folded.push(...own)
  if (folded.length > 0) kept.push([into, toJson(folded)])
  return kept
}

// Neither is a character of XML, and JSON leaves them as they are.
const uncarried = /[\uFFFE\uFFFF]/g

function toJson(pairs: readonly HeaderPair[]): string {
  return JSON.stringify(Object.fromEntries(pairs)).replace(
    uncarried,
    (character) => `\\u${character.charCodeAt(0).toString(16)}`,
  )
}

/** The inverse of `foldHeaders`: what was folded stands behind what was not. */
export function unfoldHeaders(headers: readonly HeaderPair[], { into }: FoldRules): readonly HeaderPair[] {
  const folded = headers.find(([name]) => name === into)
  const pairs = folded === undefined ? undefined : fromJson(folded[1])
  // A header of this name that is no fold is somebody's own.
  return pairs === undefined ? headers : [...headers.filter((pair) => pair !== folded), ...pairs]
}

function fromJson(text: string): HeaderPair[] | undefined {
  try {
    const value: unknown = JSON.parse(text)
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return undefined
    return Object.entries(value).filter((pair): pair is [string, string] => typeof pair[1] === 'string')
  } catch {
    return undefined
  }
}
