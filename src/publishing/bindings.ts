import { isReservedHeader, showName } from './headers.ts'
import { undeliverable } from './publisher.ts'

/** Whose terms a message is put into. `plain` is for what has headers of any name and text (a handler, a file). */
export type Binding = 'amqp' | 'http' | 'kafka' | 'nats' | 'plain' | 'redis' | 'sqs'

/** What the headers of one broker look like. */
export interface BindingRules {
  /** Before the name of a CloudEvents attribute, as the protocol's own binding says. */
  readonly cloudEventsPrefix: string
  /** True when the content type travels as a header, for want of a field of its own. */
  readonly contentTypeHeader: boolean
  /** Names of our own headers: as Debezium's, or with the words of HTTP. */
  readonly names: HeaderNames
  /** An own header of this name is left out. */
  readonly reserves: (name: string) => boolean
  /** @throws EVENT_UNDELIVERABLE for a name that this broker cannot carry. */
  readonly checkName: (name: string) => void
  readonly encodeValue: (value: string) => string
  /** The inverse, for consumers. */
  readonly decodeValue: (value: string) => string
  /** For a broker that takes few headers: see `fold.ts`. */
  readonly fold?: FoldRules
}

/** How many headers a broker takes, and which texts. */
export interface FoldRules {
  readonly limit: number
  /** Name of the header that holds the others, as JSON. */
  readonly into: string
  readonly carries: (value: string) => boolean
}

export interface HeaderNames {
  readonly id: string
  readonly eventType: string
  readonly aggregateType: string
  readonly aggregateId: string
  readonly createdAt: string
  readonly revision: string
  readonly operationId: string
  readonly replay: string
}

const debeziumNames: HeaderNames = {
  id: 'id',
  eventType: 'eventType',
  aggregateType: 'aggregateType',
  aggregateId: 'aggregateId',
  createdAt: 'createdAt',
  revision: 'revision',
  operationId: 'operationId',
  replay: 'replay',
}

const httpNames: HeaderNames = {
  id: 'x-waybill-event-id',
  eventType: 'x-waybill-event-type',
  aggregateType: 'x-waybill-aggregate-type',
  aggregateId: 'x-waybill-aggregate-id',
  createdAt: 'x-waybill-created-at',
  revision: 'x-waybill-revision',
  operationId: 'x-waybill-operation-id',
  replay: 'x-waybill-replay',
}

const anything: BindingRules = {
  cloudEventsPrefix: 'ce-',
  contentTypeHeader: true,
  names: debeziumNames,
  reserves: () => false,
  checkName: () => undefined,
  encodeValue: (value) => value,
  decodeValue: (value) => value,
}

/** One line for each broker; a new one is added here. */
export const bindings: Readonly<Record<Binding, BindingRules>> = {
  amqp: {
    ...anything,
    cloudEventsPrefix: 'cloudEvents:',
    contentTypeHeader: false,
    checkName: checkAmqpName,
  },
  http: {
    ...anything,
    contentTypeHeader: false,
    names: httpNames,
    reserves: isReservedHeader,
    checkName: checkHttpName,
    encodeValue: percentEncode,
    decodeValue: percentDecode,
  },
  kafka: { ...anything, cloudEventsPrefix: 'ce_' },
  nats: {
    ...anything,
    // JetStream takes its orders from headers: Nats-Rollup, for example, deletes what is in the stream.
    reserves: (name) => name.toLowerCase().startsWith('nats-'),
    checkName: checkNatsName,
    encodeValue: percentEncode,
    decodeValue: percentDecode,
  },
  plain: anything,
  redis: {
    ...anything,
    cloudEventsPrefix: 'ce_',
    // The body is a field beside the headers.
    reserves: (name) => name.toLowerCase() === 'body',
  },
  // SNS is the same: its messages end up in SQS.
  sqs: {
    ...anything,
    fold: { limit: 10, into: 'headers', carries: (value) => value !== '' && isXmlText(value) },
  },
}

const notXml = /[^\t\n\r\u0020-\uD7FF\uE000-\uFFFD\u{10000}-\u{10FFFF}]/u

/** True for a text that XML 1.0 can hold: all that SQS takes. */
export function isXmlText(text: string): boolean {
  return !notXml.test(text)
}

function checkAmqpName(name: string): void {
  if (name.length > 85 && Buffer.byteLength(name) > 255) {
    throw undeliverable(`header ${showName(name)} has a name of more than 255 bytes, which AMQP cannot carry`)
  }
}

// A token of RFC 9110, section 5.6.2.
const token = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/

function checkHttpName(name: string): void {
  if (!token.test(name)) {
    throw undeliverable(
      `header ${showName(name)} has a name that HTTP cannot carry: use letters, digits and any of !#$%&'*+-.^_\`|~`,
    )
  }
}

function checkNatsName(name: string): void {
  if (!/^[\x21-\x39\x3b-\x7e]+$/.test(name)) {
    throw undeliverable(
      `header ${showName(name)} has a name that NATS cannot carry: use printable ASCII without spaces and colons`,
    )
  }
}

const printable = /^[\x21\x23\x24\x26-\x7e]*$/
const unprintable = /[^\x21\x23\x24\x26-\x7e]+/gu

/**
 * A value that any HTTP header can carry: whatever is not printable ASCII, and `%`, space and `"`, becomes
 * percent-encoded UTF-8. The same rule as that of CloudEvents for HTTP.
 */
export function percentEncode(value: string): string {
  return printable.test(value) ? value : value.toWellFormed().replace(unprintable, encodeURIComponent)
}

/** The text that `percentEncode` made; a text that it cannot have made stays as it is. */
function percentDecode(text: string): string {
  if (!text.includes('%')) return text
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}
