import { type Connection, createConnection } from '../database/connection.ts'
import type { FactSources } from './collect.ts'
import { type Publication, type PublicationOptions, createPublication } from './publication.ts'

export interface OpenFactSources {
  readonly sources: FactSources
  readonly publications: ReadonlyMap<string, Publication>
  close(): Promise<void>
}

/**
 * The configured publications, and connections to the databases in which their facts stand, made when needed.
 *
 * @throws CONFIGURATION_INVALID
 */
export function openFactSources(
  outbox: Connection,
  { schema, publications }: { schema: string; publications: Readonly<Record<string, PublicationOptions>> },
): OpenFactSources {
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
