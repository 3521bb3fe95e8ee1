import { undeliverable } from './publisher.ts'

/** One header of a message, as it stands on the wire. */
export type HeaderPair = readonly [name: string, value: string]

const none: Readonly<Record<string, string>> = Object.freeze({})

/**
 * The own headers of an event from `headers::text`.
 *
 * @throws EVENT_UNDELIVERABLE with the name of the header that is not a string
 */
export function decodeHeaders(text: string): Readonly<Record<string, string>> {
  if (text === '{}') return none
  const headers = parse(text)
  if (typeof headers !== 'object' || headers === null || Array.isArray(headers)) {
    throw undeliverable(`the event's headers must be an object, they are ${kindOf(headers)}`)
  }
  for (const name in headers) {
    const value = (headers as Record<string, unknown>)[name]
    if (typeof value !== 'string') {
      throw undeliverable(
        `header ${showName(name)} must be a string, it is ${kindOf(value)}: write it as text in the headers column`,
      )
    }
  }
  return headers as Readonly<Record<string, string>>
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (cause) {
    throw undeliverable("the event's headers are not JSON", { cause })
  }
}

function kindOf(value: unknown): string {
  if (value === null) return 'null'
  if (Array.isArray(value)) return 'an array'
  return typeof value === 'object' ? 'an object' : `a ${typeof value}`
}

/** A name that came with an event, bounded and on one line, for messages. */
export function showName(name: string): string {
  return JSON.stringify(name.length > 80 ? `${name.slice(0, 79)}…` : name)
}

const reserved = new Set([
  'authorization',
  'connection',
  'content-encoding',
  'content-length',
  'content-type',
  'expect',
  'host',
  'keep-alive',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
])

/**
 * True for an own header that no event may carry, whatever its case: it would speak for the relay (`webhook-*`,
 * `x-waybill-*`, `authorization`, `proxy-*`) or break the transfer (`content-length`, `connection`, …).
 * `outbox.publish` refuses it; written by plain SQL it is left out on the way.
 */
export function isReservedHeader(name: string): boolean {
  const lower = name.toLowerCase()
  return (
    reserved.has(lower) ||
    lower.startsWith('webhook-') ||
    lower.startsWith('x-waybill-') ||
    lower.startsWith('proxy-')
  )
}
