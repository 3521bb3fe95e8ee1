import { AssertionError } from 'node:assert'
import { inSchema } from '../database/identifiers.ts'
import type { Queryable } from '../types.ts'

/** What an event must be like; what is left out is not looked at. */
export interface ExpectedEvent {
  type?: string
  /** Aggregate type and id, as given to `publish`. */
  aggregate?: readonly [type: string, id: string]
  /** Compared as `jsonb`: neither spaces nor the order of keys matter. */
  payload?: unknown
  /** Each of these must be there; there may be more. */
  headers?: Readonly<Record<string, string>>
  revision?: bigint | number
  operationId?: string
  /** How many such events there must be. Default: at least one. */
  times?: number
}

export interface PublishedEvent {
  readonly id: string
  readonly type: string
  readonly aggregate: readonly [type: string, id: string]
  readonly revision: bigint | null
}

/**
 * Asserts that such an event is in the outbox, as far as `client` sees: inside the transaction that published it
 * also before the commit. Answers the events that fit, in the order in which they were written.
 *
 *     await assertPublished(client, { type: 'order.created', aggregate: ['order', id] })
 *
 * @param options.schema default: `waybill`
 * @throws AssertionError that says what was found instead
 */
export async function assertPublished(
  client: Queryable,
  expected: ExpectedEvent,
  { schema = 'waybill' }: { schema?: string } = {},
): Promise<readonly PublishedEvent[]> {
  const { rows } = await client.query(inSchema(matching, schema), parameters(expected))
  const { times } = expected
  if (times === undefined ? rows.length > 0 : rows.length === times) return rows.map(toEvent)
  const near = await client.query(inSchema(latest, schema), expected.aggregate?.slice() ?? [null, null])
  throw new AssertionError({
    message:
      `expected ${times ?? 'at least one'} event in the outbox with ${describe(expected)}, found ${rows.length}; ` +
      describeFound(near.rows, expected.aggregate !== undefined),
    stackStartFn: assertPublished,
  })
}

const columns = 'e.id::text, e.event_type, e.aggregate_type, e.aggregate_id, e.revision::text'

const matching = `
  SELECT ${columns}
  FROM "waybill".outbox_events AS e
  WHERE ($1::text IS NULL OR e.event_type = $1::text)
    AND ($2::text IS NULL OR (e.aggregate_type, e.aggregate_id) = ($2::text, $3::text))
    AND ($4::text IS NULL OR e.payload = $4::text::jsonb)
    AND ($5::text IS NULL OR e.headers @> $5::text::jsonb)
    AND ($6::text IS NULL OR e.revision = $6::text::bigint)
    AND ($7::text IS NULL OR e.operation_id = $7::text)
  ORDER BY e.position`

const latest = `
  SELECT ${columns}
  FROM "waybill".outbox_events AS e
  WHERE $1::text IS NULL OR (e.aggregate_type, e.aggregate_id) = ($1::text, $2::text)
  ORDER BY e.position DESC LIMIT 5`

function parameters({ type, aggregate, payload, headers, revision, operationId }: ExpectedEvent): unknown[] {
  return [
    type ?? null,
    aggregate?.[0] ?? null,
    aggregate?.[1] ?? null,
    payload === undefined ? null : JSON.stringify(payload),
    headers === undefined ? null : JSON.stringify(headers),
    revision === undefined ? null : String(revision),
    operationId ?? null,
  ]
}

function toEvent(row: Record<string, unknown>): PublishedEvent {
  const {
    id,
    event_type: type,
    aggregate_type: aggregateType,
    aggregate_id: aggregateId,
    revision,
  } = row as Record<string, string>
  return {
    id: id!,
    type: type!,
    aggregate: [aggregateType!, aggregateId!],
    revision: revision === null || revision === undefined ? null : BigInt(revision),
  }
}

function describe({ type, aggregate, payload, headers, revision, operationId }: ExpectedEvent): string {
  const parts = [
    type === undefined ? '' : `type ${JSON.stringify(type)}`,
    aggregate === undefined ? '' : `aggregate ${aggregate.join(' ')}`,
    payload === undefined ? '' : 'that payload',
    headers === undefined ? '' : 'those headers',
    revision === undefined ? '' : `revision ${revision}`,
    operationId === undefined ? '' : `operation id ${JSON.stringify(operationId)}`,
  ]
  return parts.filter((part) => part !== '').join(', ') || 'any content'
}

function describeFound(rows: Record<string, unknown>[], ofAggregate: boolean): string {
  const whose = ofAggregate ? 'of this aggregate' : 'in the outbox'
  if (rows.length === 0)
    return `there is no event ${whose} (was it published in a transaction that this client sees?)`
  const list = rows
    .map(toEvent)
    .map(({ type, aggregate, revision }) =>
      [type, ...(ofAggregate ? [] : aggregate), ...(revision === null ? [] : [`revision ${revision}`])].join(
        ' ',
      ),
    )
  return `the latest ${whose}: ${list.join('; ')}`
}
