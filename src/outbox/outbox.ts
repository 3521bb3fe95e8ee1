import { type TraceHeaders, withPublishSpan } from '../telemetry/traces.ts'
import { type Accepted, type AcceptedInput, acceptedOf, notAccepted, readAccepted } from './accepted.ts'
import { validatePayload } from './catalogue.ts'
import type { EncodedEvent, EventCatalogue, OutboxEvent, WrittenEvent } from './event.ts'
import { readFields } from './fields.ts'
import { encodeJson } from './json.ts'
import {
  type OutboxOptions,
  type PublishOptions,
  checkOutboxOptions,
  checkPublishOptions,
} from './options.ts'
import { createWriter } from './writer.ts'

export interface Outbox<Handle, Events extends EventCatalogue = EventCatalogue> {
  /**
   * Writes one event, or many in one statement, inside the caller's transaction: they exist if and only if it
   * commits. Opens no connection. An event that is refused, and a revision conflict, leave the transaction usable
   * and write nothing of the call.
   *
   * @throws EVENT_INVALID, EVENT_TYPE_UNKNOWN, PAYLOAD_INVALID: before any SQL, naming the path.
   * @throws NOT_IN_TRANSACTION: the handle is in no transaction.
   * @throws REVISION_CONFLICT: the revision, or a newer one, was published before; `details` tells which.
   * @throws TRANSACTION_FAILED: an earlier statement of the transaction failed.
   * @throws SCHEMA_MISSING, PERMISSION_DENIED, DATABASE_UNREACHABLE, or the database's own error.
   */
  publish(
    tx: Handle,
    events: readonly OutboxEvent<Events>[],
    options?: PublishOptions,
  ): Promise<readonly WrittenEvent[]>
  publish(tx: Handle, event: OutboxEvent<Events>, options?: PublishOptions): Promise<WrittenEvent>

  /**
   * What the write API should answer after it published a revision, and records when: `waybill trace` compares that
   * with what public reads showed. Call it last in the transaction that published the revision, and answer with what
   * it gives once that is committed.
   *
   * @throws EVENT_INVALID: a field has a wrong value.
   * @throws REVISION_UNKNOWN: this revision is not the newest one published for the aggregate.
   * @throws NOT_IN_TRANSACTION, SCHEMA_MISSING, PERMISSION_DENIED, DATABASE_UNREACHABLE, or the database's own error.
   */
  accepted(tx: Handle, input: AcceptedInput): Promise<Accepted>
}

/**
 * The write side of Waybill.
 *
 *     const outbox = createOutbox({ client: pg(), events: { 'order.created': z.object({ total: z.number() }) } })
 *     await outbox.publish(tx, { type: 'order.created', aggregate: ['order', id], payload: { total: 12.5 } })
 *
 * @throws CONFIGURATION_INVALID
 */
export function createOutbox<Handle, Events extends EventCatalogue = EventCatalogue>(
  options: OutboxOptions<Handle, Events>,
): Outbox<Handle, Events> {
  const { client, schema, events: catalogue, serialise } = checkOutboxOptions(options)
  const writer = createWriter(client, schema)

  async function publish(tx: Handle, input: unknown, options: PublishOptions = {}): Promise<unknown> {
    const how = { serialise: checkPublishOptions(options) ?? serialise }
    const isBatch = Array.isArray(input)
    const events: EncodedEvent[] = []
    for (const [index, event] of (isBatch ? (input as unknown[]) : [input]).entries()) {
      events.push(await encodeEvent(event, isBatch ? `events[${index}].` : '', catalogue))
    }
    if (events.length === 0) return []
    const written = await withPublishSpan(events, (trace) => writer.write(tx, withTrace(events, trace), how))
    return isBatch ? written : written[0]
  }

  async function accepted(tx: Handle, input: AcceptedInput): Promise<Accepted> {
    const key = readAccepted(input)
    if (!(await writer.accept(tx, key))) throw notAccepted(key)
    return acceptedOf(key)
  }

  return { publish, accepted } as Outbox<Handle, Events>
}

async function encodeEvent(
  event: unknown,
  prefix: string,
  catalogue: EventCatalogue | undefined,
): Promise<EncodedEvent> {
  const fields = readFields(event, prefix)
  const { payload } = event as { payload?: unknown }
  const output = await validatePayload(catalogue, fields.type, payload, prefix)
  return { ...fields, payload: encodeJson(output, `${prefix}payload`) }
}

/** The trace of the call takes the place of the event's own. */
function withTrace(events: readonly EncodedEvent[], trace: TraceHeaders): readonly EncodedEvent[] {
  if (trace.traceparent === undefined) return events
  const isTrace = (name: string) => /^trace(parent|state)$/i.test(name)
  return events.map((event) => ({
    ...event,
    headers: [...event.headers.filter(([name]) => !isTrace(name)), ...Object.entries(trace)],
  }))
}
