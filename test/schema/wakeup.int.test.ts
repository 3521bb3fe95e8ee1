import type pg from 'pg'
import { afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { pg as pgClient } from '../../src/clients/pg.ts'
import { createOutbox } from '../../src/index.ts'
import { migrate } from '../../src/schema/index.ts'
import { type TestDatabase, createTestDatabase } from '../support/postgres.ts'

let db: TestDatabase
let listener: pg.Client
let channel: string
let heard: pg.Notification[] = []
const event = { type: 't', aggregate: ['a', '1'] as const, payload: {} }

beforeAll(async () => {
  db = await createTestDatabase({ schema: 'My"Schema' })
  listener = await db.connect()
  const [row] = await db.rows(`SELECT 'waybill_' || '"waybill".outbox_events'::regclass::oid AS channel`)
  channel = row!.channel
  await listener.query(`LISTEN ${channel}`)
  listener.on('notification', (message) => heard.push(message))
})
beforeEach(() => {
  heard = []
})
afterEach(async () => {
  await db.query('ROLLBACK')
  await db.query('TRUNCATE "waybill".outbox_events, "waybill".outbox_relays')
})

const outboxOf = () => createOutbox({ client: pgClient(), schema: 'My"Schema' })
const relay = (asleepUntil: string | null) =>
  db.query(`INSERT INTO "waybill".outbox_relays (relay_id, host, process_id, version, expires_at, asleep_until)
    VALUES (gen_random_uuid(), 'h', 1, '0', now() + interval '1 minute', ${asleepUntil ?? 'NULL'})`)
const publish = async (count = 1) => {
  await db.query('BEGIN')
  await outboxOf().publish(
    db.client,
    Array.from({ length: count }, () => event),
  )
  await db.query('COMMIT')
}
/** Whatever was notified before has arrived when this answers: notifications come in the order of the commits. */
const notified = async () => {
  await db.query(`NOTIFY ${channel}, 'end'`)
  while (heard.at(-1)?.payload !== 'end') await listener.query('SELECT')
  return heard.length - 1
}

describe('a committed event', () => {
  test.each<[who: string, asleepUntil: string[], notifications: number]>([
    ['no relay is there', [], 0],
    ['the relay is awake', ['NULL'], 0],
    ['a relay fell asleep and died', ["clock_timestamp() - interval '1 ms'"], 0],
    ['a relay sleeps', ["clock_timestamp() + interval '1 minute'"], 1],
    ['one of two relays sleeps', ['NULL', "clock_timestamp() + interval '1 minute'"], 1],
  ])('when %s', async (_, relays, notifications) => {
    for (const asleepUntil of relays) await relay(asleepUntil)
    await publish()
    expect(await notified()).toBe(notifications)
  })

  test('is one of many in its transaction: there is one notification, with a constant payload', async () => {
    await relay("clock_timestamp() + interval '1 minute'")
    await publish(50)
    expect(await notified()).toBe(1)
    expect(heard[0]).toMatchObject({ channel, payload: '' })
  })

  test('wakes whatever the names of the writer mean in its search_path', async () => {
    await relay("clock_timestamp() + interval '1 minute'")
    const fails = (signature: string, returns: string) =>
      `CREATE FUNCTION hostile.${signature} RETURNS ${returns} LANGUAGE plpgsql
         AS $$ BEGIN RAISE EXCEPTION 'called as %', current_user; END $$`
    await db.query(`BEGIN; CREATE SCHEMA hostile;
      ${fails('clock_timestamp()', 'timestamptz')}; ${fails('current_setting(text)', 'text')};
      ${fails('starts_with(text, text)', 'boolean')}; ${fails('pg_notify(text, text)', 'void')};
      ${fails('concat(text, oid)', 'text')}; ${fails('later(timestamptz, timestamptz)', 'boolean')};
      CREATE OPERATOR hostile.> (FUNCTION = hostile.later, LEFTARG = timestamptz, RIGHTARG = timestamptz);
      SET LOCAL search_path = hostile, pg_catalog`)
    await db.query(`INSERT INTO "waybill".outbox_events (aggregate_type, aggregate_id, event_type, payload)
      VALUES ('a', '1', 't', '{}'); SET LOCAL search_path TO DEFAULT; DROP SCHEMA hostile CASCADE; COMMIT`)
    expect(await notified()).toBe(1)
  })

  test('that was written by a plain INSERT wakes as well', async () => {
    await relay("clock_timestamp() + interval '1 minute'")
    await db.query(`INSERT INTO "waybill".outbox_events (aggregate_type, aggregate_id, event_type, payload)
      VALUES ('a', '1', 't', '{}')`)
    expect(await notified()).toBe(1)
  })

  test('that is only marked does not wake', async () => {
    await publish()
    await relay("clock_timestamp() + interval '1 minute'")
    await db.query('UPDATE "waybill".outbox_events SET processed_at = now()')
    expect(await notified()).toBe(0)
  })
})

describe("wakeup 'poll'", () => {
  const switchTo = (wakeup: 'auto' | 'poll') => migrate({ databaseUrl: db.url, schema: 'My"Schema', wakeup })
  const prepare = async () => {
    await db.query('BEGIN')
    await outboxOf().publish(db.client, event)
    await db.query("PREPARE TRANSACTION 'waybill-test'")
  }

  test('stops the notifications, so that transactions can be prepared, and auto brings them back', async () => {
    await relay("clock_timestamp() + interval '1 minute'")
    await expect(prepare()).rejects.toMatchObject({ code: '0A000' })
    await db.query('ROLLBACK')

    expect(await switchTo('poll')).toMatchObject({ steps: [], applied: true })
    expect(await switchTo('poll')).toMatchObject({ applied: false })
    await prepare()
    await db.query("COMMIT PREPARED 'waybill-test'")
    expect(await db.rows('SELECT FROM "waybill".outbox_events')).toHaveLength(1)
    expect(await notified()).toBe(0)

    heard = []
    expect(await switchTo('auto')).toMatchObject({ steps: [], applied: true })
    expect(await switchTo('auto')).toMatchObject({ applied: false })
    await publish()
    expect(await notified()).toBe(1)
  })

  test('holds as long as nobody says otherwise', async () => {
    await switchTo('poll')
    await migrate({ databaseUrl: db.url, schema: 'My"Schema' })
    expect(await db.rows(`SELECT tgenabled FROM pg_trigger WHERE tgname = 'outbox_wakeup'`)).toEqual([
      { tgenabled: 'D' },
    ])
  })
})
