import {
  instance,
  object,
  configurationInvalid,
  resolveOptions,
  type Fields,
  type OptionSource,
} from '../options.ts'
import { WaybillError } from '../errors.ts'
import { isServiceLink, unknownVariables, variableNames } from './environment.ts'
import { readConfigurationFile } from './file.ts'
import { type BrokerSpecs, type Configuration, configurationSpec } from './spec.ts'
import { interpolate } from './variables.ts'

/**
 * How much a command needs. What it does not need is not checked and its variables may be missing, so that
 * `waybill migrate` runs without the broker's password.
 */
export type Needs = 'schema' | 'database' | 'relay'

export interface LoadOptions {
  /** Folder in which the file is looked for. */
  cwd: string
  /** The file, relative to `cwd`; also the variable WAYBILL_CONFIG. Default: `waybill.config.*` in `cwd`. */
  configPath?: string
  /** Mostly `process.env`. */
  environment: Readonly<Record<string, string | undefined>>
  /** Values from the command line, by path. They win over variables, and these over the file. */
  flags?: Readonly<Record<string, { name: string; value: string } | undefined>>
  needs: Needs
  /** Loads the options of the brokers; called only for `relay`. */
  loadBrokers: () => Promise<BrokerSpecs>
}

export interface LoadedConfiguration {
  configuration: Configuration
  /** The file, or null when there is none. */
  file: string | null
  /** Sentences for people; nothing is wrong enough to stop. */
  warnings: readonly string[]
}

/**
 * The configuration from file, environment and flags, in rising order.
 *
 * @throws CONFIGURATION_INVALID with every problem, the first line being the first of them
 */
export async function loadConfiguration(options: LoadOptions): Promise<LoadedConfiguration> {
  const { cwd, environment, flags = {}, needs } = options
  const file = await readConfigurationFile(cwd, options.configPath ?? environment['WAYBILL_CONFIG'])
  const written = file?.value ?? {}
  try {
    const all = configurationSpec(needs === 'relay' ? await options.loadBrokers() : {})
    if (all.shape.kind !== 'object') throw new TypeError('the configuration is an object')
    const known = variableNames(all.shape.fields)
    const overrides = new Map<string, { value: string; source: OptionSource }>()
    for (const [name, path] of known) {
      const value = environment[name]
      if (value === undefined || isServiceLink(name, value)) continue
      overrides.set(path, { value, source: { name, hidden: false } })
    }
    for (const [path, flag] of Object.entries(flags)) {
      if (flag !== undefined)
        overrides.set(path, { value: flag.value, source: { name: flag.name, hidden: false } })
    }

    const relevant = (path: string) =>
      !overrides.has(path) && (needs === 'relay' || neededBy[needs].has(/^\w*/.exec(path)![0]))
    const { value, sources, problems, names } = interpolate(written, environment, relevant)
    const unknown = unknownVariables(environment, known, names)
    if (problems.length + unknown.problems.length > 0) {
      throw configurationInvalid([...problems, ...unknown.problems])
    }

    for (const [path, { source }] of overrides) sources.set(path, source)
    const spec = needs === 'relay' ? all : object(partOf(all.shape.fields, neededBy[needs]))
    const resolved = resolveOptions(spec, overlay(value, overrides), { sources }) as Configuration
    const configuration = needs === 'relay' ? resolved : ({ ...defaults, ...resolved } as Configuration)
    if (needs === 'relay' && Object.keys(configuration.destinations).length === 0) {
      throw configurationInvalid([
        'expected destinations to name at least one destination, but there is none',
      ])
    }
    if (needs !== 'schema' && configuration.databaseUrl === undefined) throw databaseUrlMissing(file?.path)
    return { configuration, file: file?.path ?? null, warnings: unknown.warnings }
  } catch (error) {
    if (file === null || !(error instanceof WaybillError)) throw error
    throw new WaybillError(error.code, error.message, {
      cause: error.cause,
      details: { ...error.details, file: file.path },
    })
  }
}

const neededBy = {
  schema: new Set(['schema', 'buckets', 'relay']),
  database: new Set(['databaseUrl', 'schema', 'buckets', 'relay', 'retention', 'publications']),
}
const defaults = resolveOptions(configurationSpec({}), {})

const unchecked = instance('anything', () => true).optional()

/** The same keys, of which only the needed ones are looked into. */
function partOf(fields: Fields, needed: ReadonlySet<string>): Fields {
  return Object.fromEntries(
    Object.entries(fields).map(([key, spec]) => [key, needed.has(key) ? spec : unchecked]),
  )
}

/** The tree with some values replaced; a part that is no object stays, the check will say so. */
function overlay(tree: unknown, overrides: ReadonlyMap<string, { value: string }>): unknown {
  let result = tree
  for (const [path, { value }] of overrides) result = withValue(result, path.split('.'), value)
  return result
}

function withValue(tree: unknown, [key, ...rest]: readonly string[], value: string): unknown {
  if (key === undefined) return value
  if (tree !== undefined && (typeof tree !== 'object' || tree === null || Array.isArray(tree))) return tree
  return { ...tree, [key]: withValue((tree as Record<string, unknown> | undefined)?.[key], rest, value) }
}

function databaseUrlMissing(file: string | undefined): WaybillError {
  const where =
    file === undefined ? 'write a configuration with "waybill init", or' : 'add it to the configuration, or'
  return configurationInvalid([
    `expected databaseUrl to be a URL that starts with postgres:// or postgresql://, but it is missing: ${where} use WAYBILL_DATABASE_URL or --database-url`,
  ])
}
