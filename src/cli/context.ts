import type { LoadedConfiguration, Needs } from '../configuration/load.ts'
import type { Configuration } from '../configuration/spec.ts'
import type { Connection } from '../database/connection.ts'
import type { Output } from './output.ts'

/** Options that every command takes. */
export interface GlobalOptions {
  config?: string
  databaseUrl?: string
  schema?: string
  json?: boolean
  color: boolean
  debug?: boolean
}

/** What a command gets to do its work. */
export interface CommandContext {
  readonly output: Output
  readonly globals: GlobalOptions
  /** Folder in which the command was started. */
  readonly cwd: string
  readonly environment: Readonly<Record<string, string | undefined>>
  /** Loads the configuration as far as the command needs it; `flags` by path win over everything. */
  readonly load: (needs: Needs, flags?: Flags) => Promise<LoadedConfiguration>
  /** Loads the configuration, connects, makes sure that the schema is the one this program knows, and closes. */
  readonly withDatabase: <T>(
    work: (db: Connection, configuration: DatabaseConfiguration) => Promise<T>,
  ) => Promise<T>
}

export type Flags = Readonly<Record<string, { name: string; value: string } | undefined>>
export type DatabaseConfiguration = Configuration & { readonly databaseUrl: string }

/** A command: answers its exit code, 0 when it answers nothing. */
export type Action = (context: CommandContext) => Promise<number | void>

export function createContext(
  globals: GlobalOptions,
  { output, cwd, environment }: Pick<CommandContext, 'output' | 'cwd' | 'environment'>,
): CommandContext {
  const flag = (name: string, value: string | undefined) =>
    value === undefined ? undefined : { name, value }

  const told = new Set<string>()

  async function load(needs: Needs, flags: Flags = {}): Promise<LoadedConfiguration> {
    const { loadConfiguration } = await import('../configuration/load.ts')
    const { loadBrokerSpecs } = await import('../brokers/registry.ts')
    const loaded = await loadConfiguration({
      cwd,
      environment,
      needs,
      loadBrokers: loadBrokerSpecs,
      ...(globals.config === undefined ? {} : { configPath: globals.config }),
      flags: {
        databaseUrl: flag('--database-url', globals.databaseUrl),
        schema: flag('--schema', globals.schema),
        ...flags,
      },
    })
    for (const warning of loaded.warnings) {
      if (!told.has(warning)) output.note(`waybill: warning: ${warning}`)
      told.add(warning)
    }
    return loaded
  }

  async function withDatabase<T>(
    work: (db: Connection, configuration: DatabaseConfiguration) => Promise<T>,
  ): Promise<T> {
    const { configuration } = await load('database')
    const { databaseUrl, schema } = configuration as DatabaseConfiguration
    const { createConnection } = await import('../database/connection.ts')
    const { checkSchemaVersion } = await import('../schema/migrator.ts')
    const db = createConnection({
      databaseUrl,
      schema,
      applicationName: 'waybill command',
      connectTimeoutMs: 5_000,
    })
    try {
      await checkSchemaVersion(db, schema)
      return await work(db, configuration as DatabaseConfiguration)
    } finally {
      await db.close()
    }
  }

  return { output, globals, cwd, environment, load, withDatabase }
}
