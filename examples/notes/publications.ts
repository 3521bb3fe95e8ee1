import type { PublicationInput } from '../../src/publications/index.ts'

/** Where the facts of a note stand: this is all that trace and audit are told. */
export function publicationsOf({ publicDatabaseUrl = '', publicUrl = '' }): Record<string, PublicationInput> {
  return {
    note: {
      source: { table: 'notes' },
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
      reads: [{ name: 'public list', url: `${publicUrl}/{id}` }],
    },
  }
}
