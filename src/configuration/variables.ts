import type { OptionSource } from '../options.ts'
import { joinPath } from '../wording.ts'

export interface Interpolation {
  /** The same tree with every `${NAME}` replaced; nothing of the given one is changed. */
  value: unknown
  /** Paths whose value came from the environment: text that is never printed. */
  sources: Map<string, OptionSource>
  /** One sentence for each `${NAME}` without a variable. */
  problems: string[]
  /** Every NAME that is used, found or not. */
  names: Set<string>
}

/**
 * Puts environment variables in: `"${NAME}"`, also inside a longer text. `$${` is written for a plain `${`. Only
 * plain objects and lists are looked into, so that a ready publisher in a TypeScript configuration stays itself.
 * Paths that are not `relevant` stay as they are: a variable that nobody needs may be missing.
 */
export function interpolate(
  tree: unknown,
  environment: Readonly<Record<string, string | undefined>>,
  relevant: (path: string) => boolean = () => true,
): Interpolation {
  const sources = new Map<string, OptionSource>()
  const problems: string[] = []
  const names = new Set<string>()

  function text(value: string, path: string): string {
    return value.replaceAll(reference, (all, escaped: string | undefined, name: string | undefined) => {
      if (escaped !== undefined) return '${'
      if (name === undefined) {
        if (!relevant(path)) return all
        problems.push(
          `expected ${path} to name an environment variable as \${NAME}; write $\${ for a plain \${`,
        )
        return all
      }
      names.add(name)
      if (!relevant(path)) return all
      const found = environment[name]
      if (found === undefined)
        problems.push(`${path} needs the environment variable ${name}, which is not set`)
      sources.set(path, { name: `the environment variable ${name}`, hidden: true })
      return found ?? ''
    })
  }

  function walk(value: unknown, path: string): unknown {
    if (typeof value === 'string') return text(value, path)
    if (Array.isArray(value)) return value.map((item, index) => walk(item, `${path}[${index}]`))
    if (!isData(value)) return value
    return Object.fromEntries(
      Object.entries(value).map(([key, item]) => [key, walk(item, joinPath(path, key))]),
    )
  }

  return { value: walk(tree, ''), sources, problems, names }
}

const reference = /(\$\$\{)|\$\{(?:([A-Za-z_][A-Za-z0-9_]*)\})?/g

function isData(value: unknown): value is Record<string, unknown> {
  if (typeof value !== 'object' || value === null) return false
  const prototype: unknown = Object.getPrototypeOf(value)
  return (
    (prototype === Object.prototype || prototype === null) &&
    typeof (value as { publish?: unknown }).publish !== 'function'
  )
}
