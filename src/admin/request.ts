import { checkOrder } from '../operations/cursor.ts'
import type { DeadLetterFilter } from '../operations/event-filter.ts'
import { checkLimit, checkText, usageInvalid } from '../input.ts'
import { type PublicationKey, checkRevision, checkScope } from '../publications/key.ts'
import type { TraceRequest } from '../publications/trace.ts'
import type { ReleaseOptions } from '../operations/release-parked.ts'
import type { ListEventsOptions, PageOptions } from '../operations/list-events.ts'
import { closest, show } from '../wording.ts'

// What requests say, in the terms of the operations. Values are checked there; here it is about keys and kinds.

type Queries = Readonly<Record<string, readonly string[]>>

const pageKeys = ['limit', 'after', 'payload'] as const
const filterKeys = ['aggregateType', 'aggregateId', 'eventType'] as const

/** The query of `GET /api/v1/events`. */
export function readEventsQuery(queries: Queries): ListEventsOptions {
  const query = single(queries, ['state', 'order', ...filterKeys, ...pageKeys], ['state'])
  const states = (queries['state'] ?? []).flatMap((list) => list.split(',')).filter((state) => state !== '')
  return {
    ...readFilter(query),
    ...(states.length === 0 ? {} : { states }),
    ...(query['order'] === undefined ? {} : { order: checkOrder(query['order']) }),
    ...readPage(query),
  }
}

/** The query of `GET /api/v1/dead-letters`. */
export function readDeadLettersQuery(queries: Queries): DeadLetterFilter & PageOptions {
  const query = single(queries, [...filterKeys, 'error', 'before', ...pageKeys])
  return { ...readFilter(query), ...readPage(query) }
}

/** The query of `GET /api/v1/events/:id`. */
export function readEventQuery(queries: Queries): { withPayload: boolean } {
  return { withPayload: readFlag(single(queries, ['payload'])['payload']) }
}

interface ActionBody {
  ids?: readonly string[]
  filter?: DeadLetterFilter
  all?: boolean
  allowOlder?: boolean
  reason?: string
  decidedBy?: string
}

/** The body of an action on dead letters. */
export function readActionBody(body: unknown, keys: readonly (keyof ActionBody)[]): ActionBody {
  const given = record(body, 'the body', keys)
  return {
    ...readChoice(given),
    ...(given['filter'] === undefined
      ? {}
      : { filter: readFilter(record(given['filter'], 'filter', [...filterKeys, 'error', 'before'])) }),
  }
}

function readChoice(given: Readonly<Record<string, unknown>>): Omit<ActionBody, 'filter'> {
  return {
    ...optional(given, 'ids', isTextList, 'a list of event ids'),
    ...optional(given, 'all', isBoolean, 'true or false'),
    ...optional(given, 'allowOlder', isBoolean, 'true or false'),
    ...optional(given, 'reason', isText, 'text'),
    ...optional(given, 'decidedBy', isText, 'text'),
  }
}

/** The query of `GET /api/v1/consumers/dead-letters`. */
export function readConsumerDeadLettersQuery(queries: Queries): {
  consumer?: string
  limit?: number
  after?: string
} {
  const { consumer, limit, after } = single(queries, ['consumer', 'limit', 'after'])
  return {
    ...(consumer === undefined ? {} : { consumer }),
    ...(limit === undefined ? {} : { limit: checkLimit(Number(limit)) }),
    ...(after === undefined ? {} : { after }),
  }
}

/** The body of an action on dead letters of a consumer. */
export function readConsumerActionBody(
  body: unknown,
  more: readonly 'allowOlder'[],
): Omit<ActionBody, 'filter'> & { consumer: string } {
  const given = record(body, 'the body', ['consumer', 'ids', 'all', 'reason', 'decidedBy', ...more])
  return {
    consumer: checkText('consumer', given['consumer'], 100),
    ...readChoice(given),
  }
}

/** The body of `POST /api/v1/consumers/release`. */
export function readReleaseBody(body: unknown): ReleaseOptions {
  const given = record(body, 'the body', ['consumer', 'type', 'id', 'projection', 'reason', 'decidedBy'])
  return {
    consumer: checkText('consumer', given['consumer'], 100),
    aggregate: [checkText('type', given['type']), checkText('id', given['id'])],
    ...optional(given, 'projection', isText, 'text'),
    reason: (given['reason'] ?? '') as string,
    ...optional(given, 'decidedBy', isText, 'text'),
  }
}

/** The query of `GET /api/v1/trace`. */
export function readTraceQuery(queries: Queries): TraceRequest {
  const { type, id, revision, scope } = single(queries, ['type', 'id', 'revision', 'scope'])
  if (type === undefined || id === undefined)
    throw usageInvalid('a trace needs type and id: /api/v1/trace?type=note&id=n-42&revision=7')
  return {
    type,
    id,
    ...(revision === undefined ? {} : { revision }),
    ...(scope === undefined ? {} : { scope }),
  }
}

/** What the form of the trace page holds; empty where nothing was given. */
export interface TraceForm {
  readonly type: string
  readonly id: string
  readonly revision: string
  readonly scope: string
  readonly follow: boolean
}

/** The query of `GET /trace`: of a form, so that an empty field says nothing. */
export function readTraceForm(queries: Queries): TraceForm {
  const given = single(queries, ['type', 'id', 'revision', 'scope', 'follow'])
  const { type = '', id = '', revision = '', scope = '', follow } = given
  return { type, id, revision: revision.trim(), scope, follow: follow !== undefined }
}

/** The query of a page that takes none. */
export function readNothing(queries: Queries): void {
  single(queries, [])
}

/** Where a login leads: one of our own pages, whatever was asked for. */
export function readNext(next: unknown): string {
  return typeof next === 'string' && /^\/(trace|publications)([/?][\x21-\x7e]*)?$/.test(next)
    ? next
    : '/publications'
}

/** The query of `GET /api/v1/audit`. */
export function readAuditQuery(queries: Queries): { publication?: string; reads: boolean } {
  const { publication, reads } = single(queries, ['publication', 'reads'])
  return { ...(publication === undefined ? {} : { publication }), reads: readFlag(reads, 'reads') }
}

/** The query of `GET /api/v1/decisions`. */
export function readDecisionsQuery(queries: Queries): {
  limit?: number
  aggregate?: readonly [type: string, id: string]
} {
  const query = single(queries, ['aggregateType', 'aggregateId', 'limit'])
  const { aggregate } = readFilter(query)
  return {
    ...(query['limit'] === undefined ? {} : { limit: checkLimit(Number(query['limit'])) }),
    ...(aggregate === undefined ? {} : { aggregate }),
  }
}

const keyKeys = ['type', 'id', 'revision', 'scope', 'reason', 'decidedBy'] as const

/** The body of a decision about one key. */
export function readDecisionBody(
  body: unknown,
  more: readonly string[],
): { key: PublicationKey; reason: string; decidedBy?: string; given: Readonly<Record<string, unknown>> } {
  const given = record(body, 'the body', [...keyKeys, ...more])
  const { revision } = given
  return {
    key: {
      type: checkText('type', given['type']),
      id: checkText('id', given['id']),
      revision: checkRevision(Number.isSafeInteger(revision) ? String(revision) : revision),
      scope: checkScope(given['scope']),
    },
    reason: (given['reason'] ?? '') as string,
    ...optional(given, 'decidedBy', isText, 'text'),
    given,
  }
}

function readFilter(given: Readonly<Record<string, unknown>>): DeadLetterFilter {
  const { aggregateType, aggregateId } = given
  if ((aggregateType === undefined) !== (aggregateId === undefined)) {
    throw usageInvalid('an aggregate needs both aggregateType and aggregateId')
  }
  return {
    ...(aggregateType === undefined
      ? {}
      : { aggregate: [aggregateType as string, aggregateId as string] as const }),
    ...optional(given, 'eventType', isText, 'text'),
    ...optional(given, 'error', isText, 'text'),
    ...optional(given, 'before', isText, 'a date or a time'),
  }
}

function readPage(query: Readonly<Record<string, string>>): PageOptions {
  const { limit, after, payload } = query
  return {
    ...(limit === undefined ? {} : { limit: /^\d{1,9}$/.test(limit) ? Number(limit) : (limit as never) }),
    ...(after === undefined ? {} : { after }),
    withPayload: readFlag(payload),
  }
}

function readFlag(value: string | undefined, name = 'payload'): boolean {
  if (value === undefined || value === 'false') return false
  if (value === 'true') return true
  throw usageInvalid(`expected ${name} to be true or false, got ${show(value)}`)
}

function single(
  queries: Queries,
  known: readonly string[],
  repeatable: readonly string[] = [],
): Record<string, string> {
  const result: Record<string, string> = {}
  for (const [key, values] of Object.entries(queries)) {
    if (!known.includes(key)) throw unknownKey('query parameter', key, known)
    if (values.length > 1 && !repeatable.includes(key)) throw usageInvalid(`${key} is given more than once`)
    result[key] = values[0]!
  }
  return result
}

function record(value: unknown, name: string, known: readonly string[]): Readonly<Record<string, unknown>> {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw usageInvalid(`expected ${name} to be a JSON object`)
  }
  for (const key of Object.keys(value)) if (!known.includes(key)) throw unknownKey('key', key, known)
  return value as Record<string, unknown>
}

function unknownKey(kind: string, key: string, known: readonly string[]): Error {
  const meant = closest(key, known)
  return usageInvalid(
    `unknown ${kind} ${show(key)}, ${meant === undefined ? `known are ${known.join(', ')}` : `did you mean ${show(meant)}?`}`,
  )
}

function optional<Key extends string, T>(
  given: Readonly<Record<string, unknown>>,
  key: Key,
  fits: (value: unknown) => value is T,
  expected: string,
): { [K in Key]?: T } {
  const value = given[key]
  if (value === undefined) return {}
  if (!fits(value)) throw usageInvalid(`expected ${key} to be ${expected}, got ${show(value)}`)
  return { [key]: value } as { [K in Key]: T }
}

const isText = (value: unknown): value is string => typeof value === 'string'
const isBoolean = (value: unknown): value is boolean => typeof value === 'boolean'
const isTextList = (value: unknown): value is readonly string[] => Array.isArray(value) && value.every(isText)
