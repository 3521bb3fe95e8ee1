import { expect, it } from 'vitest'
import { createTestDatabase, startTestServer } from '../support/postgres.ts'
import { describeWith, postgresMajors } from '../support/services.ts'

for (const major of postgresMajors) {
  describeWith(`postgres-${major}`, `PostgreSQL ${major}`, () => {
    it('starts and takes the schema', async () => {
      const server = await startTestServer({ major })
      const database = await createTestDatabase({ server })
      const [version] = await database.rows<{ major: number }>(
        "SELECT current_setting('server_version_num')::int / 10000 AS major",
      )
      expect(version).toEqual({ major })
      await database.query(
        `INSERT INTO "waybill".outbox_events (aggregate_type, aggregate_id, event_type, payload)
         VALUES ('order', '1', 'order.created', '{}')`,
      )
      expect(await database.rows('SELECT event_type FROM "waybill".outbox_events')).toEqual([
        { event_type: 'order.created' },
      ])
      await server.stop()
    })
  })
}
