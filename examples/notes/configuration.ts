import { type WaybillConfig, defineConfig } from '../../src/configuration/index.ts'

export interface Places {
  databaseUrl: string
  publicDatabaseUrl: string
  /** Where the public reads are asked. */
  publicUrl: string
  /** Where the relay hands over, and the secret that signs it. */
  listUrl: string
  secret: string
}

/** All that the relay and the commands are told. The lab writes it into a file; yours is `waybill.config.ts`. */
export function configurationOf(places: Places) {
  return defineConfig({
    databaseUrl: places.databaseUrl,
    destinations: { list: { type: 'webhook', url: places.listUrl, secret: places.secret } },
    relay: { leaseMs: 1_500, probeMaxMs: 1_000 },
    admin: { port: 0 },
    publications: publicationsOf(places),
  })
}

/** Where the facts of a note stand: this is all that trace and audit are told. */
export function publicationsOf({
  publicDatabaseUrl,
  publicUrl,
}: Pick<Places, 'publicDatabaseUrl' | 'publicUrl'>) {
  return {
    note: {
      source: { table: 'notes', id: 'id', revision: 'revision', keeps: 'latest' as const },
      intent: { eventType: 'note.published', payload: "jsonb_build_object('id', id, 'body', body)" },
      // Short, so that nobody has to wait for a symptom.
      pendingLimitSeconds: 2,
      owners: {
        service: 'notes team',
        relay: 'platform team',
        consumer: 'list team',
        projection: 'list team',
        read: 'web team',
      },
      consumers: [{ name: 'public-list', databaseUrl: publicDatabaseUrl }],
      projections: [{ name: 'public_notes', databaseUrl: publicDatabaseUrl, table: 'public_notes' }],
      reads: [{ name: 'public list', url: `${publicUrl}/{id}`, revision: 'body.revision', timeoutMs: 2_000 }],
    },
  } satisfies WaybillConfig['publications']
}
