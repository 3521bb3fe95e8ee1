import { WaybillError } from '../errors.ts'
import { type NumberRules, integer } from '../options.ts'

// What the options of a command are when they come from the command line: texts, not yet checked.

export interface ListFlags {
  aggregate?: string
  type?: string
  limit?: string
  after?: string
}

export interface FilterFlags {
  aggregate?: string
  type?: string
  error?: string
  before?: string
}

export interface ActionFlags extends FilterFlags {
  all?: boolean
  reason?: string
}

/** The integer of an option of a command, or undefined when it was not given. */
export function integerFlag(name: string, text: string | undefined, rules: NumberRules): number | undefined {
  if (text === undefined) return undefined
  const problems: string[] = []
  // A name without a source: the path is the flag already.
  const read = integer(rules).read(text, name, {
    problems,
    sources: new Map([[name, { name: '', hidden: false }]]),
  })
  if (typeof read === 'number') return read
  throw new WaybillError('USAGE_INVALID', problems.join('\n'))
}

/** The entries that were given, for functions that tell a missing key from an undefined one. */
export function given<T extends object>(options: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined)) as never
}
