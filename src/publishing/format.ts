import { type BindingRules, type Binding, bindings } from './bindings.ts'
import { foldHeaders } from './fold.ts'
import type { HeaderPair } from './headers.ts'
import type { Message, PublisherObserver } from './publisher.ts'

/** A message in the terms of one broker. */
export interface EncodedMessage {
  readonly body: string
  readonly contentType: string
  /** Names and values in the order in which they are sent. */
  readonly headers: readonly HeaderPair[]
}

export interface EncoderOptions {
  binding: Binding
  /** First part of the CloudEvents attribute `source`. Default: `/waybill`. */
  cloudEventsSource?: string | undefined
  /** Further names that own headers cannot have here, for example those of configured headers. Default: none. */
  reserved?: readonly string[] | undefined
}

export interface Encoder {
  /** @throws EVENT_UNDELIVERABLE when a header cannot be carried; the message names it. */
  encode(message: Message): EncodedMessage
  /** See `Publisher.observe`. */
  observe(observer: PublisherObserver): void
}

type Dropped = (message: Message, header: string) => void

// Dropped names that are remembered, to tell each once.
const toldLimit = 1000

/**
 * The one place that says which headers a message has. In order: id, eventType, aggregateType, aggregateId,
 * createdAt, revision, operationId, replay, then traceparent and tracestate, then the event's own headers, of
 * which none can take the place of one of these, however its name is written. Where a broker takes few headers,
 * some of them are folded into one.
 */
export function createEncoder(options: EncoderOptions): Encoder {
  const { binding, cloudEventsSource = '/waybill', reserved = [] } = options
  const rules = bindings[binding]
  const reservedNames = new Set(reserved.map((name) => name.toLowerCase()))
  const told = new Set<string>()
  let observer: PublisherObserver | undefined

  function dropped(message: Message, header: string): void {
    const key = header.toLowerCase()
    if (observer === undefined || told.has(key) || told.size >= toldLimit) return
    told.add(key)
    observer.headerDropped({ eventId: message.eventId, header })
  }

  return {
    encode(message) {
      const { format } = message
      const headers: [string, string][] = []
      let body = message.body
      let contentType = 'application/json'
      if (format === 'debezium') {
        addDebezium(headers, message, rules)
      } else if (format === 'cloudevents') {
        addCloudEvent(headers, message, rules, cloudEventsSource)
      } else {
        body = structured(message, cloudEventsSource)
        contentType = 'application/cloudevents+json; charset=utf-8'
      }
      if (format !== 'debezium' && rules.contentTypeHeader) headers.push(['content-type', contentType])
      addTrace(headers, message, dropped)
      const ours = headers.length
      addOwn(headers, message, rules, reservedNames, dropped)
      const { fold } = rules
      return {
        body,
        contentType,
        headers:
          fold === undefined ? headers : foldHeaders(headers.slice(0, ours), headers.slice(ours), fold),
      }
    },
    observe(next) {
      observer = next
      told.clear()
    },
  }
}

function addDebezium(
  headers: [string, string][],
  message: Message,
  { names, encodeValue }: BindingRules,
): void {
  headers.push(
    [names.id, message.eventId],
    [names.eventType, encodeValue(message.eventType)],
    [names.aggregateType, encodeValue(message.aggregateType)],
    [names.aggregateId, encodeValue(message.aggregateId)],
    [names.createdAt, message.createdAt],
  )
  if (message.revision !== null) headers.push([names.revision, message.revision])
  if (message.operationId !== null) headers.push([names.operationId, encodeValue(message.operationId)])
  if (message.replay !== null) headers.push([names.replay, String(message.replay)])
}

function addCloudEvent(
  headers: [string, string][],
  message: Message,
  rules: BindingRules,
  source: string,
): void {
  const { cloudEventsPrefix, encodeValue } = rules
  for (const [name, value] of Object.entries(attributes(message, source))) {
    headers.push([cloudEventsPrefix + name, encodeValue(String(value))])
  }
}

/**
 * The attributes of CloudEvents 1.0 for a message; names of extensions are lower-case letters and digits. The id
 * is the event's, also on a replay: it is the same event.
 */
function attributes(message: Message, source: string): Record<string, string | number> {
  const { revision, operationId, replay, headers } = message
  return {
    specversion: '1.0',
    id: message.eventId,
    source: `${source}/${encodeURIComponent(message.aggregateType.toWellFormed())}`,
    type: message.eventType,
    subject: message.aggregateId,
    time: message.createdAt,
    aggregatetype: message.aggregateType,
    partitionkey: message.aggregateId,
    ...(revision === null ? {} : { revision }),
    ...(operationId === null ? {} : { operationid: operationId }),
    ...(replay === null ? {} : { replay }),
    ...(headers['traceparent'] === undefined ? {} : { traceparent: headers['traceparent'] }),
    ...(headers['tracestate'] === undefined ? {} : { tracestate: headers['tracestate'] }),
  }
}

/** The payload stands in the envelope as PostgreSQL wrote it: no JSON is parsed on the way. */
function structured(message: Message, source: string): string {
  const envelope = JSON.stringify({ ...attributes(message, source), datacontenttype: 'application/json' })
  return `${envelope.slice(0, -1)},"data":${message.body}}`
}

// What W3C allows in a header of HTTP; such a value passes as it is, `%` and spaces included.
const traceValue = /^[\x20-\x7e]*$/

function addTrace(headers: [string, string][], message: Message, dropped: Dropped): void {
  for (const name of traceNames) {
    const value = message.headers[name]
    if (value === undefined) continue
    if (traceValue.test(value)) headers.push([name, value])
    else dropped(message, name)
  }
}
const traceNames = ['traceparent', 'tracestate'] as const

function addOwn(
  headers: [string, string][],
  message: Message,
  rules: BindingRules,
  reserved: ReadonlySet<string>,
  dropped: Dropped,
): void {
  const taken = headers.length
  for (const name in message.headers) {
    if (name === 'traceparent' || name === 'tracestate') continue
    if (
      rules.reserves(name) ||
      isTaken(headers, taken, name) ||
      (reserved.size > 0 && reserved.has(name.toLowerCase())) ||
      isCloudEvent(message, rules, name)
    ) {
      dropped(message, name)
      continue
    }
    rules.checkName(name)
    headers.push([name, rules.encodeValue(message.headers[name]!)])
  }
}

function isTaken(headers: readonly HeaderPair[], taken: number, name: string): boolean {
  for (let i = 0; i < taken; i++) {
    const ours = headers[i]![0]
    if (ours.length === name.length && ours.toLowerCase() === name.toLowerCase()) return true
  }
  return false
}

function isCloudEvent({ format }: Message, { cloudEventsPrefix }: BindingRules, name: string): boolean {
  return format !== 'debezium' && name.toLowerCase().startsWith(cloudEventsPrefix.toLowerCase())
}
