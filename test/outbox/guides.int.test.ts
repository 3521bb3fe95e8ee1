import { readFileSync } from 'node:fs'
import { beforeAll, expect, test } from 'vitest'
import { type TestDatabase, createTestDatabase } from '../support/postgres.ts'

const guide = readFileSync(new URL('../../docs/guides/writing-events.md', import.meta.url), 'utf8')
const statements = [...guide.matchAll(/```sql\n(.*?)```/gs)].map(([, sql]) => sql!)
let db: TestDatabase

beforeAll(async () => {
  db = await createTestDatabase({ schema: 'waybill' })
})

test('the SQL of the guide writes events from any language', async () => {
  expect(statements).toHaveLength(3)
  for (const sql of statements) await db.client.query(sql)
  const rows = await db.rows(
    'SELECT event_type, payload::text, headers, operation_id, revision FROM "waybill".outbox_events ORDER BY position',
  )
  expect(rows).toEqual([
    {
      event_type: 'order.created',
      payload: '{"total": 12.50, "order_id": "o-1"}',
      headers: {},
      operation_id: null,
      revision: null,
    },
    {
      event_type: 'order.paid',
      payload: '{}',
      headers: { tenant: 'acme' },
      operation_id: 'request-7',
      revision: null,
    },
    {
      event_type: 'note.published',
      payload: '{"body": "…"}',
      headers: {},
      operation_id: null,
      revision: '7',
    },
  ])
})
