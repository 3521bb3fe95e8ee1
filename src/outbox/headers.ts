import { isReservedHeader } from '../publishing/headers.ts'
import { eventInvalid, formatPath } from './path.ts'
import { kindOf, textProblem } from './text.ts'

/** Names under which the message carries the event's own fields. */
const messageNames: ReadonlySet<string> = new Set([
  'id',
  'eventtype',
  'aggregatetype',
  'aggregateid',
  'createdat',
  'revision',
  'operationid',
  'replay',
])

/**
 * The event's own headers, checked: a flat object of texts. Undefined ones are left out, as JSON does.
 *
 * @throws EVENT_INVALID
 */
export function readHeaders(value: unknown, path: string): [name: string, value: string][] {
  if (value === undefined) return []
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw eventInvalid(path, `must be an object of texts, got ${kindOf(value)}`)
  }
  return Object.entries(value)
    .filter(([, text]) => text !== undefined)
    .map(([name, text]: [string, unknown]) => {
      const here = formatPath(path, [name])
      const problem = headerProblem(name, text)
      if (problem !== undefined) throw eventInvalid(here, problem)
      return [name, text as string]
    })
}

function headerProblem(name: string, text: unknown): string | undefined {
  if (name === '') return 'has an empty name'
  const inName = textProblem(name)
  if (inName !== undefined) return `has a name that ${inName}`
  if (isReservedHeader(name) || messageNames.has(name.toLowerCase()))
    return 'is a reserved header: give it another name'
  return typeof text === 'string' ? textProblem(text) : `must be a text, got ${kindOf(text)}`
}
