import { inSchema } from '../database/identifiers.ts'
import { WaybillError } from '../errors.ts'
import { show } from '../wording.ts'
import type { Store } from './store.ts'

/** What a handler does outside of the database: a mail, a webhook, a search index. */
export interface Effects {
  /**
   * Runs `run` unless an effect of this key has finished before, for this consumer. Answers whether it ran now. A finished effect is
   * not repeated when the event comes again, nor when the transaction of the handler rolls back afterwards. While a
   * projection is rebuilt none runs.
   *
   * At least once: when the process ends after the effect and before that is on record, it runs again. Give the key to
   * the other side as its idempotency key, where it takes one.
   *
   * @param key 1 to 500 characters; name the effect and the event: `mail:order-confirmed:${event.id}`
   * @throws EVENT_INVALID for an unusable key; what `run` throws
   */
  once(key: string, run: () => unknown): Promise<boolean>
}

export interface EffectsOptions<Tx> {
  store: Store<Tx>
  consumer: string
  schema: string
}

/** A rebuild repeats what projections hold, never what went out. */
export const noEffects: Effects = {
  async once(key) {
    checkKey(key)
    return false
  },
}

/** The effects of one try. */
export function createEffects<Tx>({ store, consumer, schema }: EffectsOptions<Tx>) {
  const lock = `
    SELECT pg_advisory_xact_lock(hashtextextended($2::text, hashtextextended($1::text, 1463899)))::text AS locked`
  const find = inSchema(
    `SELECT 1 AS found FROM "waybill".consumer_effects WHERE consumer = $1::text AND effect_key = $2::text`,
    schema,
  )
  const record = inSchema(
    `INSERT INTO "waybill".consumer_effects (consumer, effect_key, event_id)
     VALUES ($1::text, $2::text, $3::text) ON CONFLICT (consumer, effect_key) DO NOTHING`,
    schema,
  )

  return (tx: Tx, eventId: string): Effects => ({
    async once(key, run) {
      checkKey(key)
      // Another event may have the same effect: the second waits for the first, in whatever process it runs.
      await store.run(tx, lock, [consumer, key])
      // Beside the transaction: it must be on record although the transaction may yet roll back.
      if ((await store.query(find, [consumer, key])).length > 0) return false
      await run()
      await store.query(record, [consumer, key, eventId])
      return true
    },
  })
}

function checkKey(key: unknown): void {
  const usable =
    typeof key === 'string' &&
    key.length >= 1 &&
    key.length <= 500 &&
    !key.includes('\u0000') &&
    key.isWellFormed()
  if (usable) return
  throw new WaybillError(
    'EVENT_INVALID',
    `expected the key of an effect to be a text of 1 to 500 characters, got ${show(key)}`,
  )
}
