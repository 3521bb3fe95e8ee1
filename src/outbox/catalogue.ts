import type { StandardSchemaV1 } from '@standard-schema/spec'
import { WaybillError } from '../errors.ts'
import type { EventCatalogue } from './event.ts'
import { formatPath } from './path.ts'
import { kindOf } from './text.ts'

/**
 * What the catalogue's schema makes of a payload: its output, which is what is stored. A promise only for an
 * asynchronous schema. Without a catalogue the payload itself.
 *
 * @throws EVENT_TYPE_UNKNOWN, PAYLOAD_INVALID
 */
export function validatePayload(
  catalogue: EventCatalogue | undefined,
  type: string,
  payload: unknown,
  prefix: string,
): unknown {
  if (catalogue === undefined) return payload
  const schema = Object.hasOwn(catalogue, type) ? catalogue[type] : undefined
  if (schema === undefined) throw typeUnknown(catalogue, type, prefix)
  const accept = (result: StandardSchemaV1.Result<unknown>) => {
    if (result.issues) throw payloadInvalid(type, payload, result.issues, `${prefix}payload`)
    return result.value
  }
  const result = schema['~standard'].validate(payload)
  return result instanceof Promise ? result.then(accept) : accept(result)
}

function typeUnknown(catalogue: EventCatalogue, type: string, prefix: string): WaybillError {
  const types = Object.keys(catalogue)
  const some = types.slice(0, 5).map((name) => JSON.stringify(name))
  const more = types.length > some.length ? ` and ${types.length - some.length} more` : ''
  return new WaybillError(
    'EVENT_TYPE_UNKNOWN',
    `${prefix}type ${JSON.stringify(type)} is not in the catalogue of events, which has ${some.join(', ') || 'none'}${more}`,
    { details: { path: `${prefix}type`, type } },
  )
}

function payloadInvalid(
  type: string,
  payload: unknown,
  found: readonly StandardSchemaV1.Issue[],
  root: string,
): WaybillError {
  const issues = found.map((issue) => {
    const keys = (issue.path ?? []).map((part) => (typeof part === 'object' ? part.key : part))
    return { path: formatPath(root, keys), message: discreet(issue.message, valueAt(payload, keys)) }
  })
  const [first = { path: root, message: 'is refused by the schema' }] = issues
  const more = issues.length > 1 ? ` (and ${issues.length - 1} more)` : ''
  return new WaybillError(
    'PAYLOAD_INVALID',
    `${first.path} does not match the schema of ${JSON.stringify(type)}: ${first.message}${more}`,
    { details: { path: first.path, type, issues } },
  )
}

/** Some schemas quote the value they got (`received "4111 1111 …"`); messages and logs must not hold payloads. */
function discreet(message: string, value: unknown): string {
  return quotes(message, value) ? `its value is not accepted, got ${kindOf(value)}` : message
}

// `expected number, received string`: words of the library, also where the value is one of them.
const typeWords = /\b(expected|received) (string|number|bigint|boolean|object|array|date|null|undefined)\b/gi

/**
 * Whether a message holds the value. A short one occurs in the words of most messages ("x" in "expected", 1 in
 * "10"), so it counts only where it stands by itself.
 */
function quotes(message: string, value: unknown): boolean {
  if (typeof value !== 'string' && typeof value !== 'number' && typeof value !== 'bigint') return false
  const text = String(value)
  if (text === '') return false
  const rest = message.replaceAll(typeWords, '')
  return [text, JSON.stringify(text).slice(1, -1)].some((shown) =>
    shown.length > 3 ? rest.includes(shown) : standsAlone(rest, shown),
  )
}

function standsAlone(text: string, word: string): boolean {
  const escaped = word.replaceAll(/[\\^$.*+?()[\]{}|/]/g, '\\$&')
  return new RegExp(`(?<![\\p{L}\\p{N}_])${escaped}(?![\\p{L}\\p{N}_])`, 'u').test(text)
}

function valueAt(root: unknown, keys: readonly PropertyKey[]): unknown {
  return keys.reduce<unknown>(
    (value, key) => (value as Record<PropertyKey, unknown> | null | undefined)?.[key],
    root,
  )
}
