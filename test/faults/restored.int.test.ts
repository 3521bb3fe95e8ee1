import { chmod, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { brokerUnavailable } from '../../src/relay/index.ts'
import { testRelay } from '../relay/harness.ts'
import { atEndOfFile } from '../support/cleanups.ts'
import { createLedger } from '../support/ledger.ts'
import { type TestDatabase, createTestDatabase, startTestServer } from '../support/postgres.ts'
import { expectWhole, ledgerBroker } from './kit.ts'

/** Every row of both schemas as of one snapshot, as a logical dump takes it, while whoever works there works on. */
async function copyAll(from: TestDatabase, to: TestDatabase): Promise<void> {
  // The servers read and write the files themselves, as accounts of their own.
  const folder = await mkdtemp(join(tmpdir(), 'waybill-dump-'))
  await chmod(folder, 0o777)
  atEndOfFile(() => rm(folder, { recursive: true, force: true }))
  const source = await from.connect()
  await source.query('BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY')
  const { rows: tables } = await source.query<{ name: string }>(
    `SELECT format('%I.%I', schemaname, tablename) AS name FROM pg_tables WHERE schemaname IN ($1, 'ledger')`,
    [from.schema],
  )
  expect(tables.length).toBeGreaterThan(8)
  for (const [n, { name }] of tables.entries()) {
    await source.query(`COPY ${name} TO '${folder}/${n}'`)
    await to.client.query(`TRUNCATE ${name}`)
    await to.client.query(`COPY ${name} FROM '${folder}/${n}'`)
  }
  const { rows } = await source.query(from.sql('SELECT last_value FROM "waybill".outbox_events_position_seq'))
  await to.query(`SELECT setval('"waybill".outbox_events_position_seq', $1)`, [rows[0]!.last_value])
  await source.query('COMMIT')
}

describe('a dump that was taken from a living system', () => {
  test(
    'and restored into another cluster, where transaction ids are others: what was pending arrives, positions go on',
    { timeout: 60_000 },
    async () => {
      const [old, server] = await Promise.all([createTestDatabase(), startTestServer()])
      const restored = await createTestDatabase({ server })
      // Ids of transactions that the new cluster will reach only in some time.
      await old.client.query(
        'CREATE PROCEDURE burn() LANGUAGE plpgsql AS $$ BEGIN FOR i IN 1..5000 LOOP PERFORM pg_current_xact_id(); COMMIT; END LOOP; END $$',
      )
      await old.client.query('CALL burn()')

      let url = old.url
      const ledger = await createLedger({ schema: old.schema, url: () => url })
      await createLedger(restored)
      const broker = ledgerBroker(ledger)
      const first = testRelay(old, { destinations: { bus: broker } })
      await first.start()
      await ledger.write(200)
      await ledger.untilDelivered()
      await first.stop()
      const away = () => Promise.reject(brokerUnavailable('the broker is away'))
      const second = testRelay(old, { destinations: { bus: { ...broker, publish: away } }, leaseMs: 2_000 })
      await second.start()
      await ledger.write(300)
      await second.until('destination.down')

      await copyAll(old, restored)
      await second.stop()
      url = restored.url

      const [then] = await restored.rows<Record<string, boolean>>(
        `SELECT (max(xid::text::bigint) > pg_current_xact_id()::text::bigint) AS "ahead",
                count(*) FILTER (WHERE processed_at IS NULL) = 300 AS "pending",
                (SELECT count(owner) FROM "waybill".outbox_buckets) = 64 AS "owned"
         FROM "waybill".outbox_events`,
      )
      expect(then).toEqual({ ahead: true, pending: true, owned: true })
      const [before] = await restored.rows(
        'SELECT max(position)::int AS position FROM "waybill".outbox_events',
      )

      const relay = testRelay(restored, { destinations: { bus: broker } })
      await relay.start()
      // The leases of the relays that were dumped run out first.
      await ledger.untilDelivered()
      const writers = ledger.startWriters()
      await ledger.untilArrivals(100)
      await writers.stop()
      await ledger.untilDelivered()
      await relay.stop()
      await expectWhole(ledger, restored)
      const [after] = await restored.rows(
        `SELECT min(position)::int AS position FROM "waybill".outbox_events WHERE position > $1`,
        [before!['position']],
      )
      expect(after).toEqual({ position: before!['position'] + 1 })
    },
  )
})
