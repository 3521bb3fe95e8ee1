import { eventInvalid, formatPath } from './path.ts'
import { kindOf, textProblem } from './text.ts'

/** Far below what PostgreSQL's parser takes, which fails the caller's whole transaction when it gives up. */
const maxDepth = 1000

/** Built-in objects that JSON writes as `{}`. A promise among them is a forgotten `await`. */
const emptyInJson =
  /^\[object (Map|Set|WeakMap|WeakSet|WeakRef|Promise|RegExp|Error|ArrayBuffer|SharedArrayBuffer)\]$/

/** An object or array whose members are being written, and its own place in the one around it. */
interface Level {
  readonly container: object
  readonly key: PropertyKey
}

/**
 * The JSON text of a value, as `JSON.stringify` writes it: `toJSON` is called, undefined members are left out, -0
 * becomes 0. But what JSON or PostgreSQL would lose is refused, with its path: NaN, Infinity, BigInt, an invalid
 * Date, undefined in an array, functions, symbols, Map and Set and their kin, U+0000, lone surrogates, cycles.
 *
 * @throws EVENT_INVALID
 */
export function encodeJson(root: unknown, rootPath: string): string {
  const levels: Level[] = []

  // A replacer sees each value once, after toJSON, with its container as `this`: no second walk, no second toJSON.
  function visit(this: object, name: string, value: unknown): unknown {
    while (levels.length > 0 && levels.at(-1)!.container !== this) levels.pop()
    const isRoot = levels.length === 0
    const key = Array.isArray(this) ? Number(name) : name
    const refuse = (problem: string): never => {
      const keys = isRoot ? [] : [...levels.slice(1).map((level) => level.key), key]
      throw eventInvalid(formatPath(rootPath, keys), problem)
    }
    if (!isRoot && typeof key === 'string') {
      if (value === undefined) return undefined
      const problem = textProblem(key)
      if (problem !== undefined) refuse(`has a name that ${problem}`)
    }
    const plain = unbox(value)
    const problem = problemOf(plain) ?? (plain === null ? hiddenProblem(this, name) : undefined)
    if (problem !== undefined) refuse(problem)
    if (typeof plain === 'object' && plain !== null) {
      if (levels.some(({ container }) => container === plain)) refuse('contains itself')
      if (levels.length >= maxDepth) refuse(`is nested more than ${maxDepth} levels deep`)
      levels.push({ container: plain, key })
    }
    return plain
  }

  return JSON.stringify(root, visit)
}

/** `new Number(1)` and its like, which JSON takes for their values. */
function unbox(value: unknown): unknown {
  if (typeof value !== 'object') return value
  if (value instanceof Number || value instanceof String || value instanceof Boolean) return value.valueOf()
  return Object.prototype.toString.call(value) === '[object BigInt]' ? 0n : value
}

function problemOf(value: unknown): string | undefined {
  switch (typeof value) {
    case 'string':
      return textProblem(value)
    case 'number':
      return Number.isFinite(value) ? undefined : `is ${value}, which JSON cannot hold`
    case 'bigint':
      return 'is a BigInt, which JSON cannot hold: convert it to a text'
    case 'undefined':
    case 'function':
    case 'symbol':
      return `is ${kindOf(value)}, which JSON cannot hold`
    case 'object':
      return value === null ? undefined : objectProblem(value)
    default:
      return undefined
  }
}

function objectProblem(value: object): string | undefined {
  const [, name] = emptyInJson.exec(Object.prototype.toString.call(value)) ?? []
  if (name === 'Promise') return 'is a Promise: await it first'
  if (name !== undefined)
    return `is of the type ${name}, which JSON would write as {}: convert it to an object or an array`
  return ArrayBuffer.isView(value)
    ? 'is binary data, which JSON cannot hold: convert it to a text (base64)'
    : undefined
}

/** An invalid Date has become null by its toJSON: only its container still tells. */
function hiddenProblem(container: object, name: string): string | undefined {
  const written = (container as Record<string, unknown>)[name]
  return written instanceof Date && Number.isNaN(written.getTime()) ? 'is an invalid Date' : undefined
}
