import type { Configuration } from '../configuration/spec.ts'
import type { Connection } from '../database/connection.ts'
import type { FactSources } from '../publications/collect.ts'
import type { Publication } from '../publications/publication.ts'

export interface OpenFactSources {
  readonly sources: FactSources
  readonly publications: ReadonlyMap<string, Publication>
  close(): Promise<void>
}

/** The configured publications, and connections to the databases in which their facts stand, made when needed. */
export async function openFactSources(
  outbox: Connection,
  { schema, publications }: Pick<Configuration, 'schema' | 'publications'>,
): Promise<OpenFactSources> {
  const { createConnection } = await import('../database/connection.ts')
  const { createPublication } = await import('../publications/publication.ts')
  const others = new Map<string, Connection>()
  const connectionTo = (databaseUrl: string) => {
    const known = others.get(databaseUrl)
    if (known !== undefined) return known
    const made = createConnection({
      ...{ databaseUrl, schema, applicationName: 'waybill facts', connectTimeoutMs: 5_000 },
    })
    others.set(databaseUrl, made)
    return made
  }
  return {
    sources: {
      outbox: { db: outbox, schema },
      databaseOf: (place) => ({
        db: place.databaseUrl === undefined ? outbox : connectionTo(place.databaseUrl),
        schema: place.schema ?? schema,
      }),
    },
    publications: new Map(
      Object.entries(publications).map(([name, options]) => [name, createPublication(name, options)]),
    ),
    async close() {
      await Promise.all([...others.values()].map((connection) => connection.close()))
    },
  }
}
