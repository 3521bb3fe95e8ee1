import { checkSchemaName, inSchema } from '../database/identifiers.ts'
import { WaybillError } from '../errors.ts'
import { object, resolveOptions, string } from '../options.ts'
import type { ReceivedEvent } from '../publishing/received-event.ts'
import type { ClientAdapter, Queryable } from '../types.ts'
import { pgQueries } from './pg-queries.ts'

export interface InboxOptions<Tx = Queryable> {
  /** The name under which is remembered what was handled, 1 to 100 characters: one for each service. */
  readonly name: string
  /** Where the tables are. Default: `waybill`. */
  readonly schema?: string
  /** The adapter of another client library than `pg`. */
  readonly client?: ClientAdapter<Tx>
}

/** The inbox alone, for people who have a consumer of their own. */
export interface Inbox<Tx = Queryable> {
  /**
   * Runs `run` unless this event was handled before, inside the caller's transaction: what it writes and the memory of
   * it commit together. Answers whether it ran. Waits for another transaction that has the same event under way.
   * When `run` throws, everything since the call is taken back and the transaction stays usable.
   *
   * @param event the event, or its id, 1 to 255 characters
   * @throws NOT_IN_TRANSACTION with nothing done; what `run` throws; a serialisation failure (40001) above READ COMMITTED
   *   when the other one has committed: repeat the transaction
   */
  once(tx: Tx, event: string | ReceivedEvent, run: () => unknown): Promise<boolean>
}

const spec = object({ name: string({ maxLength: 100 }) })

const remember = `
  INSERT INTO "waybill".processed_events (consumer, event_id, result, aggregate_type, aggregate_id, revision, attempts)
  VALUES ($1::text, $2::text, 'applied', nullif($3::text, ''), nullif($4::text, ''), nullif($5::text, '')::bigint, 1)
  ON CONFLICT (consumer, event_id) DO NOTHING
  RETURNING 1 AS first`

/** @throws CONFIGURATION_INVALID */
export function createInbox<Tx = Queryable>(options: InboxOptions<Tx>): Inbox<Tx> {
  const {
    schema: schemaName = 'waybill',
    client = pgQueries as unknown as ClientAdapter<Tx>,
    ...written
  } = options
  const { name } = resolveOptions(spec, written, { path: 'inbox' })
  const statement = inSchema(remember, checkSchemaName(schemaName))
  const query = (tx: Tx, sql: string, params: string[] = []) => client.query(tx, sql, params)

  async function takeBack(tx: Tx): Promise<void> {
    await query(tx, 'ROLLBACK TO SAVEPOINT waybill_once')
    await query(tx, 'RELEASE SAVEPOINT waybill_once')
  }

  return {
    async once(tx, event, run) {
      const params = [name, ...describe(event)]
      await enterSavepoint(() => query(tx, 'SAVEPOINT waybill_once'))
      try {
        const first = (await query(tx, statement, params)).length > 0
        if (first) await run()
        await query(tx, 'RELEASE SAVEPOINT waybill_once')
        return first
      } catch (error) {
        // The first error is the one that tells.
        await takeBack(tx).catch(() => undefined)
        throw error
      }
    },
  }
}

/** PostgreSQL refuses a savepoint outside of a transaction (25P01): nothing is done in autocommit. */
async function enterSavepoint(run: () => Promise<unknown>): Promise<void> {
  try {
    await run()
  } catch (cause) {
    if ((cause as { code?: unknown }).code !== '25P01') throw cause
    throw new WaybillError(
      'NOT_IN_TRANSACTION',
      'inbox.once needs a handle that is inside a transaction, and this one is not: nothing was done; pass the handle on which you ran BEGIN',
      { cause },
    )
  }
}

function describe(event: string | ReceivedEvent): string[] {
  const {
    id,
    aggregateType = '',
    aggregateId = '',
    revision = null,
  } = typeof event === 'string' ? { id: event } : event
  if (typeof id !== 'string' || id.length < 1 || id.length > 255 || id.includes('\u0000')) {
    throw new WaybillError('EVENT_INVALID', 'expected the id of an event to be a text of 1 to 255 characters')
  }
  return [id, aggregateType, aggregateId, revision?.toString() ?? '']
}
