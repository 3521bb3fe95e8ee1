import { defineConfig } from '../../src/configuration/index.ts'
import { publicationsOf } from './publications.ts'

export default defineConfig({
  databaseUrl: '${DATABASE_URL}',
  destinations: { list: { type: 'webhook', url: '${LIST_URL}', secret: '${LIST_SECRET}' } },
  relay: { leaseMs: 1_500, probeMaxMs: 1_000 },
  publications: publicationsOf({
    publicDatabaseUrl: '${PUBLIC_DATABASE_URL}',
    publicUrl: '${PUBLIC_URL}',
  }),
})
