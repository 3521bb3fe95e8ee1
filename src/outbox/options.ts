import { checkSchemaName } from '../database/identifiers.ts'
import { WaybillError } from '../errors.ts'
import type { ClientAdapter } from '../types.ts'
import type { EventCatalogue } from './event.ts'

export interface OutboxOptions<Handle, Events extends EventCatalogue = EventCatalogue> {
  /** The client library of the handles that `publish` will get: `pg()` of `waybill/clients/pg`. */
  readonly client: ClientAdapter<Handle>
  /** Where the tables are. Default: `waybill`. */
  readonly schema?: string | undefined
  /**
   * The event types and the schemas of their payloads, checked by the compiler and at run time. Default: any type
   * and any JSON payload.
   */
  readonly events?: Events | undefined
  /** The default of {@link PublishOptions.serialise}. Default: false. */
  readonly serialise?: boolean | undefined
}

export interface PublishOptions {
  /**
   * Locks each aggregate of the call until the transaction ends, so that the order of its events is the order of the
   * commits. Needed only where an aggregate's writers are not serialised anyway, by a lock on their own row or by
   * `revision`; all of them must then ask for it. Default: as given to `createOutbox`.
   */
  readonly serialise?: boolean | undefined
}

interface CheckedOptions<Handle> {
  readonly client: ClientAdapter<Handle>
  readonly schema: string
  readonly events: EventCatalogue | undefined
  readonly serialise: boolean
}

/** Written without `options.ts`: importing `waybill` loads as little as it can. */
export function checkOutboxOptions<Handle>(options: OutboxOptions<Handle>): CheckedOptions<Handle> {
  checkKeys(options, ['client', 'schema', 'events', 'serialise'], 'createOutbox')
  const { client, schema = 'waybill', events, serialise } = options
  if (typeof (client as Partial<ClientAdapter<Handle>> | undefined)?.query !== 'function') {
    throw invalid(
      'expected client to be the adapter of a client library, for example pg() of waybill/clients/pg',
    )
  }
  if (typeof schema !== 'string') throw invalid('expected schema to be a text')
  for (const [type, eventSchema] of Object.entries(events ?? {})) {
    const standard = (eventSchema as Partial<EventCatalogue[string]> | undefined)?.['~standard']
    if (typeof standard?.validate !== 'function') {
      throw invalid(
        `expected events[${JSON.stringify(type)}] to be a Standard Schema (zod, valibot, arktype, …)`,
      )
    }
  }
  return { client, schema: checkSchemaName(schema), events, serialise: checkSerialise(serialise) ?? false }
}

/** What `publish` was told, or undefined where it was told nothing. */
export function checkPublishOptions(options: PublishOptions): boolean | undefined {
  checkKeys(options, ['serialise'], 'publish')
  return checkSerialise(options.serialise)
}

function checkSerialise(value: unknown): boolean | undefined {
  if (value === undefined || typeof value === 'boolean') return value
  throw invalid('expected serialise to be true or false')
}

function checkKeys(options: unknown, known: readonly string[], caller: string): void {
  if (typeof options !== 'object' || options === null)
    throw invalid(`expected the options of ${caller} to be an object`)
  const unknown = Object.keys(options).find((key) => !known.includes(key))
  if (unknown !== undefined) {
    throw invalid(
      `unknown option ${JSON.stringify(unknown)} of ${caller}, expected one of ${known.join(', ')}`,
    )
  }
}

function invalid(message: string): WaybillError {
  return new WaybillError('CONFIGURATION_INVALID', message)
}
