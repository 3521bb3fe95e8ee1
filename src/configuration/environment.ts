import type { Fields } from '../options.ts'
import { closest, joinPath } from '../wording.ts'

/** Variables that the program reads itself; they are no options. */
const reserved = new Set(['WAYBILL_CONFIG'])

/**
 * The environment variable of each option that is one value: `relay.batchSize` is `WAYBILL_RELAY_BATCH_SIZE`.
 * What a user names himself (destinations, routes) has none; there, the file says `${NAME}`.
 */
export function variableNames(fields: Fields, path = ''): Map<string, string> {
  const names = new Map<string, string>()
  for (const [key, { shape }] of Object.entries(fields)) {
    const at = joinPath(path, key)
    if (shape.kind === 'object') for (const [name, p] of variableNames(shape.fields, at)) names.set(name, p)
    if (shape.kind === 'value' && shape.type !== 'other') names.set(variableName(at), at)
  }
  return names
}

/** `relay.batchSize` → `WAYBILL_RELAY_BATCH_SIZE`. */
export function variableName(path: string): string {
  return `WAYBILL_${path.replaceAll('.', '_').replaceAll(/([a-z0-9])([A-Z])/g, '$1_$2')}`.toUpperCase()
}

export interface UnknownVariables {
  /** Nearly the name of an option: surely a slip, so the program refuses to start. */
  problems: string[]
  /** Anything else: said, and ignored. */
  warnings: string[]
}

/**
 * `WAYBILL_…` variables that no option has. `used` are those that the configuration file names itself. Left out:
 * `WAYBILL_TEST_…`, and what Kubernetes sets for a service that is called waybill.
 */
export function unknownVariables(
  environment: Readonly<Record<string, string | undefined>>,
  known: ReadonlyMap<string, string>,
  used: ReadonlySet<string>,
): UnknownVariables {
  const problems: string[] = []
  const warnings: string[] = []
  for (const name of Object.keys(environment).sort()) {
    if (!name.startsWith('WAYBILL_') || name.startsWith('WAYBILL_TEST_')) continue
    if (known.has(name) || used.has(name) || reserved.has(name) || isServiceLink(name, environment[name]))
      continue
    const near = closest(
      name.slice(prefix),
      [...known.keys()].map((other) => other.slice(prefix)),
    )
    if (near !== undefined)
      problems.push(`unknown environment variable ${name}, did you mean WAYBILL_${near}?`)
    else warnings.push(`the environment variable ${name} belongs to no option and is ignored`)
  }
  return { problems, warnings }
}
const prefix = 'WAYBILL_'.length

/** `WAYBILL_PORT=tcp://10.0.0.7:4747` and its kin are set by Kubernetes in every pod beside a service "waybill". */
export function isServiceLink(name: string, value: string | undefined): boolean {
  return (
    /_SERVICE_(HOST|PORT)(_|$)|_PORT_\d+_(TCP|UDP|SCTP)(_|$)/.test(name) ||
    (name.endsWith('_PORT') && /^(tcp|udp|sctp):\/\//.test(value ?? ''))
  )
}
