import type { BenchDatabase } from '../server.ts'

/** What stands between a producer and its commit. */
export interface Condition {
  key: string
  title: string
  /** Waybill's trigger on the events table. */
  trigger: boolean
  /** A relay that takes the events while they are written: `auto` listens, `poll` does not. */
  relay: 'auto' | 'poll' | null
  /** Another relay, with nothing to do, says all the time that it sleeps: every transaction notifies. */
  sleeper: boolean
  /** The trigger that is usually taught: NOTIFY with the id for each row. Somebody listens. */
  notifyPerRow: boolean
}

const base = { trigger: false, relay: 'poll', sleeper: false, notifyPerRow: false } as const

export const off: Condition = { ...base, key: 'off', title: 'wake-up off, a relay polls' }
export const on: Condition = {
  ...base,
  key: 'on',
  title: 'wake-up on, a relay is awake',
  trigger: true,
  relay: 'auto',
}
export const asleep: Condition = {
  ...base,
  key: 'asleep',
  title: 'wake-up on, another relay sleeps all the time',
  trigger: true,
  relay: 'auto',
  sleeper: true,
}
export const perRow: Condition = {
  ...base,
  key: 'notify_per_row',
  title: 'NOTIFY for each row, a relay polls',
  notifyPerRow: true,
}
export const alone: Condition = { ...base, key: 'alone', title: 'wake-up off, no relay', relay: null }
export const aloneOn: Condition = {
  ...base,
  key: 'alone_on',
  title: 'wake-up on, no relay',
  trigger: true,
  relay: null,
}

export const conditions: readonly Condition[] = [off, on, asleep, perRow, alone, aloneOn]

const channel = 'outbox_event'

export const producerTables = `
  CREATE TABLE bench_orders (
    id       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    customer text NOT NULL,
    total    integer NOT NULL
  );
  CREATE FUNCTION notify_outbox_insert() RETURNS trigger LANGUAGE plpgsql AS $$
  BEGIN
    PERFORM pg_notify('${channel}', NEW.id::text);
    RETURN NEW;
  END;
  $$;
  CREATE TRIGGER outbox_insert_notify AFTER INSERT ON waybill.outbox_events
    FOR EACH ROW EXECUTE FUNCTION notify_outbox_insert();`

/** Empties the tables and sets the triggers; no relay may be running. Answers how to take it back. */
export async function enter(database: BenchDatabase, condition: Condition): Promise<() => Promise<void>> {
  const enabled = (yes: boolean) => (yes ? 'ENABLE' : 'DISABLE')
  await database.query(`
    TRUNCATE bench_orders, waybill.outbox_events, waybill.outbox_relays;
    ALTER TABLE waybill.outbox_events
      ${enabled(condition.trigger)} TRIGGER outbox_wakeup,
      ${enabled(condition.notifyPerRow)} TRIGGER outbox_insert_notify`)
  if (condition.sleeper) {
    await database.query(`
      INSERT INTO waybill.outbox_relays (relay_id, host, process_id, version, expires_at, asleep_until)
      VALUES (gen_random_uuid(), 'bench', 0, '0', clock_timestamp() - interval '1 minute',
              clock_timestamp() + interval '1 hour')`)
  }
  if (!condition.notifyPerRow) return () => Promise.resolve()
  const listener = await database.connect()
  await listener.query(`LISTEN ${channel}`)
  return () => listener.end()
}
