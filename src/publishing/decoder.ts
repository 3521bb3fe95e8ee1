import { createHash } from 'node:crypto'
import { WaybillError, cleanText } from '../errors.ts'
import { type BindingRules, type HeaderNames, bindings } from './bindings.ts'
import { type HeaderPair, showName } from './headers.ts'
import { unfoldHeaders } from './fold.ts'
import { ownHeaders } from './own-headers.ts'
import type { ReceivedEvent } from './received-event.ts'
import type { Delivery } from './source.ts'
import { splitStructured } from './structured.ts'

/** What a message says about itself, before it is checked. */
type Facts = { readonly [Name in keyof HeaderNames]: string | undefined } & { readonly body: string }

/**
 * The event of a delivery: the inverse of `format.ts`, for each broker and for the formats `debezium`, CloudEvents
 * in binary and in structured mode. What real Debezium leaves out by default, the topic and the key stand in for.
 *
 * @throws DELIVERY_INVALID; `details.eventId` is the event's id, or a stable substitute when it has none
 */
export function decodeDelivery(delivery: Delivery): ReceivedEvent {
  const rules = bindings[delivery.binding]
  const headers = lowerCased(
    rules.fold === undefined ? delivery.headers : unfoldHeaders(delivery.headers, rules.fold),
  )
  const body = bodyText(delivery)
  const contentType = (delivery.contentType ?? headers.get('content-type') ?? '').toLowerCase()
  const facts = readFacts(delivery, rules, headers, contentType, body)
  return checkFacts(facts, delivery, ownHeaders(delivery, rules, contentType))
}

/**
 * An id for a message that has none of its own, equal for the same message: dead letters are kept by id.
 */
export function substituteId({ origin, headers, body }: Delivery): string {
  const hash = createHash('sha256').update(origin).update(JSON.stringify(headers)).update(body)
  return `unidentified:${hash.digest('hex').slice(0, 32)}`
}

function readFacts(
  delivery: Delivery,
  rules: BindingRules,
  headers: ReadonlyMap<string, string>,
  contentType: string,
  body: string,
): Facts {
  const prefix = rules.cloudEventsPrefix.toLowerCase()
  const get = (name: string) => {
    const value = headers.get(name.toLowerCase())
    return value === undefined ? undefined : rules.decodeValue(value)
  }
  if (contentType.startsWith('application/cloudevents-batch')) {
    throw deliveryInvalid(delivery, 'is a batch of CloudEvents: send each event alone')
  }
  if (contentType.startsWith('application/cloudevents')) return fromStructured(delivery, body)
  if (headers.has(`${prefix}specversion`)) {
    return { ...fromAttributes((name) => get(prefix + name)), body }
  }
  const { names } = rules
  return {
    id: get(names.id),
    eventType: get(names.eventType),
    aggregateType: get(names.aggregateType) ?? typeOfTopic(delivery.topic),
    aggregateId: get(names.aggregateId) ?? delivery.key ?? undefined,
    createdAt: get(names.createdAt),
    revision: get(names.revision),
    operationId: get(names.operationId),
    replay: get(names.replay),
    body,
  }
}

function fromStructured(delivery: Delivery, body: string): Facts {
  const parts = splitStructured(body)
  if (parts === undefined)
    throw deliveryInvalid(delivery, 'is no structured CloudEvent: its body is no JSON object')
  if ('data_base64' in parts.attributes) {
    throw deliveryInvalid(
      delivery,
      'is a CloudEvent with binary data (data_base64), which is no JSON payload',
    )
  }
  const get = (name: string) => {
    const value = parts.attributes[name]
    return typeof value === 'string' || typeof value === 'number' ? String(value) : undefined
  }
  return { ...fromAttributes(get), body: parts.data }
}

/** Foreign CloudEvents know no aggregate: `subject` is what they are about, `source` who tells it. */
function fromAttributes(get: (name: string) => string | undefined): Omit<Facts, 'body'> {
  return {
    id: get('id'),
    eventType: get('type'),
    aggregateType: get('aggregatetype') ?? get('source'),
    aggregateId: get('partitionkey') ?? get('subject'),
    createdAt: get('time'),
    revision: get('revision'),
    operationId: get('operationid'),
    replay: get('replay'),
  }
}

const standardTopic = /^outbox[.-]event[.-](.+)$/

function typeOfTopic(topic: string | null): string | undefined {
  return standardTopic.exec(topic ?? '')?.[1]
}

function checkFacts(
  facts: Facts,
  delivery: Delivery,
  headers: Readonly<Record<string, string>>,
): ReceivedEvent {
  const id = checkText(facts.id, 'id of the event', delivery, undefined)
  const text = (value: string | undefined, what: string) => checkText(value, what, delivery, id)
  const { revision = '', replay = '', body } = facts
  if (revision !== '' && !isRevision(revision)) {
    throw deliveryInvalid(
      delivery,
      `has a revision that is no number from 0 to 2^63 - 1: ${showName(revision)}`,
      id,
    )
  }
  return {
    id,
    type: text(facts.eventType, 'event type'),
    aggregateType: text(facts.aggregateType, 'aggregate type'),
    aggregateId: text(facts.aggregateId, 'aggregate id'),
    payload: parsePayload(body, delivery, id),
    body,
    revision: revision === '' ? null : BigInt(revision),
    operationId: facts.operationId ?? null,
    createdAt: facts.createdAt ?? null,
    headers,
    replay: /^[1-9]\d{0,8}$/.test(replay) ? Number(replay) : null,
    origin: delivery.origin,
  }
}

function isRevision(text: string): boolean {
  return /^\d{1,19}$/.test(text) && BigInt(text) <= 9_223_372_036_854_775_807n
}

function checkText(
  value: string | undefined,
  what: string,
  delivery: Delivery,
  id: string | undefined,
): string {
  if (value === undefined || value === '') throw deliveryInvalid(delivery, `has no ${what}`, id)
  if (value.length > 255 || value.includes('\u0000') || !value.isWellFormed()) {
    throw deliveryInvalid(delivery, `has an unusable ${what} (1 to 255 characters): ${showName(value)}`, id)
  }
  return value
}

function parsePayload(body: string, delivery: Delivery, id: string): unknown {
  try {
    return JSON.parse(body)
  } catch (cause) {
    // The parser's own words quote the body.
    throw deliveryInvalid(delivery, body === '' ? 'has no body' : 'has a body that is no JSON', id, cause)
  }
}

const utf8 = new TextDecoder('utf-8', { fatal: true })

function bodyText(delivery: Delivery): string {
  const { body } = delivery
  if (typeof body === 'string') return body
  try {
    return utf8.decode(body)
  } catch (cause) {
    throw deliveryInvalid(delivery, 'has a body that is no UTF-8', undefined, cause)
  }
}

function lowerCased(headers: readonly HeaderPair[]): ReadonlyMap<string, string> {
  const found = new Map<string, string>()
  for (const [name, value] of headers) {
    const lower = name.toLowerCase()
    if (!found.has(lower)) found.set(lower, value)
  }
  return found
}

function deliveryInvalid(delivery: Delivery, problem: string, id?: string, cause?: unknown): WaybillError {
  const origin = cleanText(delivery.origin, 300)
  return new WaybillError(
    'DELIVERY_INVALID',
    `the message ${origin} ${problem}: consumers know the formats of docs/reference/message.md, or take a decode function`,
    { cause, details: { eventId: id ?? substituteId(delivery) } },
  )
}
