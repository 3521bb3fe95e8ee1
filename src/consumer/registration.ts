import { hostname } from 'node:os'
import { inSchema } from '../database/identifiers.ts'
import { packageVersion } from '../version.ts'
import type { Store } from './store.ts'

export interface RegistrationOptions<Tx> {
  store: Store<Tx>
  schema: string
  consumer: string
  instanceId: string
  subscription: string | null
  handlers: readonly string[]
}

/** Another process that reads something else under the same name. */
export interface Stranger {
  readonly host: string
  readonly processId: number
  readonly subscription: string
}

/** Tells the database that this process is at work, and finds out who else claims to be the same consumer. */
export interface Registration {
  /** Answers processes of the same name that must be another service. */
  beat(): Promise<readonly Stranger[]>
  leave(): Promise<void>
}

export const beatEveryMs = 10_000

/** A process that says nothing for so long counts as dead. */
export const beatLastsSeconds = 30

/**
 * A long stop is one of more than an hour. What was under way then may come again only now, so the dedupe memory is
 * not cleaned until the consumer has been at work for as long as it stood still, and for a day at least.
 */
const seen = `
  INSERT INTO "waybill".consumers AS c (consumer, handlers)
  SELECT $1::text, ARRAY(SELECT jsonb_array_elements_text($2::text::jsonb))
  ON CONFLICT (consumer) DO UPDATE SET
    handlers = excluded.handlers,
    stopped_for = CASE WHEN clock_timestamp() - c.seen_at < interval '1 hour' THEN c.stopped_for
      ELSE clock_timestamp() - c.seen_at
        + CASE WHEN c.seen_at < c.resumed_at + greatest(c.stopped_for, interval '1 day') THEN c.stopped_for
               ELSE interval '0' END END,
    resumed_at = CASE WHEN clock_timestamp() - c.seen_at < interval '1 hour' THEN c.resumed_at
      ELSE clock_timestamp() END,
    seen_at = clock_timestamp()`

const register = `
  INSERT INTO "waybill".consumer_instances
    (consumer, instance_id, subscription, handlers, host, process_id, version, expires_at)
  SELECT $1::text, $2::text::uuid, nullif($3::text, ''),
         ARRAY(SELECT jsonb_array_elements_text($4::text::jsonb)), $5::text, $6::text::int, $7::text,
         clock_timestamp() + interval '${beatLastsSeconds} seconds'
  ON CONFLICT (consumer, instance_id) DO UPDATE SET expires_at = excluded.expires_at`

const strangers = `
  SELECT host, process_id::text, coalesce(subscription, array_to_string(handlers, ', ')) AS subscription
  FROM "waybill".consumer_instances
  WHERE consumer = $1::text AND instance_id <> $2::text::uuid AND expires_at > clock_timestamp()
    AND CASE WHEN subscription IS NULL AND $3::text = ''
             THEN handlers <> ARRAY(SELECT jsonb_array_elements_text($4::text::jsonb))
             ELSE coalesce(subscription, '') <> $3::text END`

const forgetExpired = `
  DELETE FROM "waybill".consumer_instances
  WHERE consumer = $1::text AND (instance_id = $2::text::uuid OR expires_at < clock_timestamp() - interval '1 day')`

export function createRegistration<Tx>(options: RegistrationOptions<Tx>): Registration {
  const { store, schema, consumer, instanceId, subscription, handlers } = options
  const types = JSON.stringify([...handlers].sort())
  const who = [subscription ?? '', types]
  const query = (sql: string, ...params: string[]) =>
    store.query(inSchema(sql, schema), [consumer, ...params])

  return {
    async beat() {
      await query(seen, types)
      await query(register, instanceId, ...who, hostname(), String(process.pid), packageVersion())
      return (await query(strangers, instanceId, ...who)).map((row) => ({
        host: row['host'] as string,
        processId: Number(row['process_id']),
        subscription: row['subscription'] as string,
      }))
    },
    async leave() {
      await query(forgetExpired, instanceId)
    },
  }
}
