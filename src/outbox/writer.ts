import { WaybillError } from '../errors.ts'
import type { ClientAdapter } from '../types.ts'
import type { AcceptedKey } from './accepted.ts'
import type { EncodedEvent, WrittenEvent } from './event.ts'
import { publishError } from './failures.ts'
import { createStatements, encodeEvents, encodePairs } from './statements.ts'

/** What `outbox_publish_intents` answers. */
type IntentsAnswer =
  | { ok: true; repeated: Readonly<Record<string, string>> }
  | { ok: false; reason: 'transaction' }
  | { ok: false; reason: 'revision'; index: number; newest: string }

/** Writes checked events on a handle; the only part of the write side that talks to the database. */
export interface Writer<Handle> {
  /** @throws NOT_IN_TRANSACTION, REVISION_CONFLICT, and what `publishError` makes of the database's errors */
  write(
    tx: Handle,
    events: readonly EncodedEvent[],
    options: { serialise: boolean },
  ): Promise<readonly WrittenEvent[]>
  /** Notes that the write API is about to answer; false when this is not the newest published revision. */
  accept(tx: Handle, key: AcceptedKey): Promise<boolean>
}

export function createWriter<Handle>(client: ClientAdapter<Handle>, schema: string): Writer<Handle> {
  const statements = createStatements(schema)

  /** Each statement answers one row with one text. */
  async function run(tx: Handle, sql: string, ...params: string[]): Promise<string> {
    let row: Record<string, unknown> | undefined
    try {
      ;[row] = await client.query(tx, sql, params)
    } catch (error) {
      throw publishError(error, schema, () => client.role?.(tx))
    }
    const answer = row?.['answer']
    if (typeof answer === 'string') return answer
    throw new WaybillError(
      'CONFIGURATION_INVALID',
      `the adapter of the client ${client.name} did not answer with the rows of the statement: roll the transaction back`,
    )
  }

  /** The first statement of a transaction finds no transaction id: with one it is inside, or there is none. */
  async function insideTransaction<T>(tx: Handle, attempt: () => Promise<T | undefined>): Promise<T> {
    const first = await attempt()
    if (first !== undefined) return first
    await run(tx, statements.enterTransaction)
    const second = await attempt()
    if (second !== undefined) return second
    throw new WaybillError(
      'NOT_IN_TRANSACTION',
      `publish needs a ${client.name} handle that is inside a transaction, and this one is not (never begun, ` +
        'ended already, or its session was lost): nothing was written; pass the handle on which you ran BEGIN',
    )
  }

  async function insert(tx: Handle, events: readonly EncodedEvent[]): Promise<readonly WrittenEvent[]> {
    const param = encodeEvents(events)
    return insideTransaction(tx, async () => {
      const inside = await run(tx, statements.insert, param)
      return inside === 'true' ? events.map(({ id }) => ({ id, written: true })) : undefined
    })
  }

  async function publishIntents(
    tx: Handle,
    events: readonly EncodedEvent[],
  ): Promise<readonly WrittenEvent[]> {
    const param = encodeEvents(events)
    return insideTransaction(tx, async () => {
      const answer = JSON.parse(await run(tx, statements.publishIntents, param)) as IntentsAnswer
      if (answer.ok) {
        return events.map(({ id }, index) => {
          const repeated = answer.repeated[index]
          return { id: repeated ?? id, written: repeated === undefined }
        })
      }
      if (answer.reason === 'transaction') return undefined
      throw revisionConflict(events[answer.index]!, answer.index, BigInt(answer.newest))
    })
  }

  return {
    async write(tx, events, { serialise }) {
      if (serialise) await run(tx, statements.lockAggregates, encodePairs(events))
      return events.some(({ revision }) => revision !== null)
        ? publishIntents(tx, events)
        : insert(tx, events)
    },
    async accept(tx, { type, id, scope, revision, operationId }) {
      const key = JSON.stringify([type, id, scope, String(revision), operationId])
      return (await run(tx, statements.accept, key)) === 'true'
    },
  }
}

function revisionConflict(event: EncodedEvent, index: number, newest: bigint): WaybillError {
  const { aggregateType, aggregateId, revision, scope } = event
  const who = `${JSON.stringify(aggregateType)} ${JSON.stringify(aggregateId)}`
  const where = scope === '' ? '' : ` in the scope ${JSON.stringify(scope)}`
  const problem =
    revision === newest ? 'was published before' : `is below the newest published one, ${newest}`
  return new WaybillError(
    'REVISION_CONFLICT',
    `revision ${revision} of ${who} ${problem}${where}: nothing of this call was written, the transaction is still usable`,
    { details: { aggregate: [aggregateType, aggregateId], revision, newest, index, scope } },
  )
}
