import { WaybillError } from '../errors.ts'

/**
 * `--aggregate TYPE ID` takes two words, and an id may look like an option (`-5`, `--all`): the two are made one
 * value before the command line is parsed.
 */
export function pairAggregate(argv: readonly string[]): string[] {
  const end = argv.indexOf('--')
  const options = end === -1 ? argv : argv.slice(0, end)
  const at = options.indexOf('--aggregate')
  if (at === -1) return [...argv]
  const pair = argv.slice(at + 1, at + 3)
  if (pair.length < 2) return [...argv]
  return [...argv.slice(0, at), `--aggregate=${JSON.stringify(pair)}`, ...argv.slice(at + 3)]
}

/** The two words of `--aggregate`. */
export function readAggregate(text: string | undefined): readonly [string, string] | undefined {
  if (text === undefined) return undefined
  try {
    const pair: unknown = JSON.parse(text)
    if (Array.isArray(pair) && pair.length === 2) return [String(pair[0]), String(pair[1])]
  } catch {
    // The same sentence as for a pair of the wrong length.
  }
  throw new WaybillError('USAGE_INVALID', '--aggregate needs a type and an id: --aggregate order o-17')
}
