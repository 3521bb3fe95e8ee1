import type pg from 'pg'
import { beforeAll, expect, test } from 'vitest'
import { pg as pgClient } from '../../src/clients/pg.ts'
import { createOutbox } from '../../src/index.ts'
import { latestVersion, migrate, printMigrations } from '../../src/schema/index.ts'
import { type TestDatabase, createTestDatabase, startTestServer } from '../support/postgres.ts'
import { describeWith, postgresMajors } from '../support/services.ts'
import { describeCatalog } from './catalog.ts'

const outbox = createOutbox({ client: pgClient() })
const event = (id: string, changes: object = {}) => ({
  type: 'note.published',
  aggregate: ['note', id] as const,
  payload: { id },
  ...changes,
})

for (const major of postgresMajors) {
  describeWith(`postgres-${major}`, `on PostgreSQL ${major}`, () => {
    let db: TestDatabase
    let client: pg.Client
    beforeAll(async () => {
      const server = await startTestServer({ major })
      db = await createTestDatabase({ server })
      client = db.client
    })

    test('which it is', async () => {
      expect(await db.rows('SHOW server_version')).toEqual([
        { server_version: expect.stringMatching(new RegExp(`^${major}\\.`)) },
      ])
    })

    test('the schema goes up, down and up, and is the same when it is printed', async () => {
      const before = await describeCatalog(client, 'waybill')
      await migrate({ databaseUrl: db.url, to: 0 })
      await migrate({ databaseUrl: db.url })
      expect(await describeCatalog(client, 'waybill')).toEqual(before)
      await migrate({ databaseUrl: db.url, to: 0 })
      await client.query('DROP TABLE waybill.schema_version')
      await client.query(printMigrations())
      expect(await describeCatalog(client, 'waybill')).toEqual(before)
      expect(await migrate({ databaseUrl: db.url })).toMatchObject({ from: latestVersion(), applied: false })
    })

    test('buckets are the same as on every other version', async () => {
      const rows = await db.rows(`SELECT "waybill".outbox_bucket('order', 'o-1') AS a,
        "waybill".outbox_bucket('ab', 'c') AS b, "waybill".outbox_bucket('note', 'ü 😀') AS c`)
      expect(rows).toEqual([{ a: 49, b: 28, c: 63 }])
    })

    test('the guard lets only transactions write', async () => {
      for (const changes of [{}, { revision: 1 }]) {
        for (const serialise of [false, true]) {
          await expect(outbox.publish(client, event('g', changes), { serialise })).rejects.toMatchObject({
            code: 'NOT_IN_TRANSACTION',
          })
        }
      }
      expect(await db.rows('SELECT FROM "waybill".outbox_events')).toEqual([])
      await client.query('BEGIN')
      await outbox.publish(client, [
        event('a'),
        event('b', { headers: { tenant: 'acme' }, operationId: 'r-1' }),
      ])
      await client.query('SAVEPOINT s')
      await outbox.publish(client, event('c'), { serialise: true })
      await client.query('ROLLBACK TO SAVEPOINT s')
      await client.query('COMMIT')
      const rows = await db.rows('SELECT aggregate_id FROM "waybill".outbox_events ORDER BY position')
      expect(rows.map((row) => row.aggregate_id)).toEqual(['a', 'b'])
    })

    test('revisions are published once, repeated in peace, and refused when they conflict', async () => {
      await client.query('BEGIN')
      const [first] = await outbox.publish(client, [
        event('r', { revision: 2 }),
        event('s', { revision: 1, scope: 'x' }),
      ])
      expect(await outbox.publish(client, event('r', { revision: 2 }))).toEqual({
        id: first!.id,
        written: false,
      })
      await expect(outbox.publish(client, event('r', { revision: 1 }))).rejects.toMatchObject({
        code: 'REVISION_CONFLICT',
        details: { newest: 2n },
      })
      await client.query('COMMIT')
      await db.query(`INSERT INTO "waybill".outbox_events (aggregate_type, aggregate_id, event_type, payload, revision)
        VALUES ('note', 'plain', 't', '{}', 1)`)
      await client.query('BEGIN')
      await expect(outbox.publish(client, event('plain', { revision: 1 }))).rejects.toMatchObject({
        code: 'REVISION_CONFLICT',
      })
      await client.query('COMMIT')
      expect(await db.rows('SELECT intent_key FROM "waybill".publication_intents ORDER BY 1')).toEqual(
        ['plain:1', 'r:2', 's:1#x'].map((intent_key) => ({ intent_key })),
      )
    })

    test('a sleeping relay is woken', async () => {
      await db.query(`INSERT INTO "waybill".outbox_relays (relay_id, host, process_id, version, expires_at, asleep_until)
        VALUES (gen_random_uuid(), 'h', 1, '0', now() + interval '1 minute', now() + interval '1 minute')`)
      const listener = await db.connect()
      const [row] = await db.rows(`SELECT 'waybill_' || '"waybill".outbox_events'::regclass::oid AS channel`)
      await listener.query(`LISTEN ${row!.channel}`)
      const notified = new Promise((resolve) => listener.once('notification', resolve))
      await client.query('BEGIN')
      await outbox.publish(client, event('w'))
      await client.query('COMMIT')
      expect(await notified).toMatchObject({ channel: row!.channel, payload: '' })
    })
  })
}
