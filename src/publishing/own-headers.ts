import type { BindingRules } from './bindings.ts'
import { unfoldHeaders } from './fold.ts'
import type { Delivery } from './source.ts'

/**
 * The event's own headers among all that came: what is neither one of ours nor the transport's. In SQS they are one
 * attribute of JSON.
 */
export function ownHeaders(
  { binding, headers }: Delivery,
  rules: BindingRules,
  contentType: string,
): Readonly<Record<string, string>> {
  const { names, decodeValue, reserves } = rules
  const prefix = rules.cloudEventsPrefix.toLowerCase()
  const ours = new Set(
    Object.values(names as unknown as Record<string, string>).map((name) => name.toLowerCase()),
  )
  const isCloudEvent = contentType.startsWith('application/cloudevents')
  const own = new Map<string, string>()
  for (const [name, value] of rules.fold === undefined ? headers : unfoldHeaders(headers, rules.fold)) {
    const lower = name.toLowerCase()
    if (lower === 'traceparent' || lower === 'tracestate') own.set(lower, value)
    else if (ours.has(lower) && !isCloudEvent) continue
    else if (lower.startsWith(prefix) || lower === 'content-type' || own.has(name)) continue
    else if (reserves(name) || (binding === 'http' && isTransport(lower))) continue
    else own.set(name, decodeValue(value))
  }
  return Object.fromEntries(own)
}

/** What a sender, a proxy or the library for HTTP adds by itself. */
const transport = new Set(['accept', 'accept-encoding', 'accept-language', 'user-agent', 'forwarded', 'via'])

function isTransport(lower: string): boolean {
  return transport.has(lower) || lower.startsWith('x-forwarded-')
}
