import type * as Otel from '@opentelemetry/api'
import type { Context, Link, Span, SpanContext } from '@opentelemetry/api'
import { describeError } from '../errors.ts'

/** W3C Trace Context, as it travels in the headers of an event. */
export interface TraceHeaders {
  readonly traceparent?: string
  readonly tracestate?: string
}

type Api = typeof Otel

/** OpenTelemetry is the user's own: looked for once, at the first use. Null: it is not there. */
let api: Api | null | undefined
let loading: Promise<void> | undefined

/** Looks for `@opentelemetry/api`. Once that is over it answers undefined: nobody waits again. */
export function loadTraces(): Promise<void> | undefined {
  if (api !== undefined) return undefined
  return (loading ??= import('@opentelemetry/api').then(
    (found) => void (api = found),
    () => void (api = null),
  ))
}

/**
 * Runs `write` inside a span `outbox publish`, a child of the active one, and gives it that span's context for the
 * headers of the events. Without OpenTelemetry, or without an active trace and a tracer, the headers are empty.
 */
export async function withPublishSpan<T>(
  events: readonly { readonly type: string; readonly aggregateType: string }[],
  write: (headers: TraceHeaders) => Promise<T>,
): Promise<T> {
  const pending = loadTraces()
  if (pending !== undefined) await pending
  if (!api) return write({})
  const { context, trace, SpanKind } = api
  const span = tracer(api).startSpan('outbox publish', {
    kind: SpanKind.PRODUCER,
    attributes: {
      'messaging.system': 'waybill',
      'messaging.operation.name': 'publish',
      'messaging.batch.message_count': events.length,
      'waybill.event_types': [...new Set(events.map(({ type }) => type))].slice(0, 10),
    },
  })
  const active: Context = trace.setSpan(context.active(), span)
  return finishing(span, () => context.with(active, () => write(toHeaders(span.spanContext()))))
}

/** A span of the relay; `end` is idempotent. */
export interface RelaySpan {
  /** With the error when the call failed. */
  end(error?: unknown): void
}

/**
 * Starts a span `outbox relay` for one call of a publisher, linked with the traces in which the events were written:
 * the wait between the two belongs to neither. Answers at once; call `loadTraces` when the relay starts.
 */
export function startRelaySpan(call: {
  readonly destination: string
  readonly messages: readonly { readonly headers: Readonly<Record<string, string>> }[]
}): RelaySpan {
  if (!api) return noSpan
  const links = call.messages
    .slice(0, maxLinks)
    .map(({ headers }) => spanContextOf(headers))
    .filter((context) => context !== undefined)
    .map((context): Link => ({ context }))
  const span = tracer(api).startSpan('outbox relay', {
    kind: api.SpanKind.CLIENT,
    root: true,
    links,
    attributes: {
      'messaging.system': 'waybill',
      'messaging.operation.name': 'relay',
      'messaging.destination.name': call.destination,
      'messaging.batch.message_count': call.messages.length,
    },
  })
  return { end: (error) => endSpan(span, error) }
}

/**
 * Runs a handler inside a span `outbox consume`, in the trace in which the event was written: what the handler does
 * belongs to it. Without OpenTelemetry it just runs.
 */
export async function withConsumeSpan<T>(
  event: {
    readonly id: string
    readonly type: string
    readonly headers: Readonly<Record<string, string>>
  },
  consumer: string,
  work: () => Promise<T>,
): Promise<T> {
  if (!api) return work()
  const { context, trace, SpanKind } = api
  const origin = spanContextOf(event.headers)
  const parent = origin === undefined ? context.active() : trace.setSpanContext(context.active(), origin)
  const span = tracer(api).startSpan(
    'outbox consume',
    {
      kind: SpanKind.CONSUMER,
      attributes: {
        'messaging.system': 'waybill',
        'messaging.operation.name': 'consume',
        'messaging.message.id': event.id,
        'messaging.consumer.group.name': consumer,
        'waybill.event_types': [event.type],
      },
    },
    parent,
  )
  return finishing(span, () => context.with(trace.setSpan(parent, span), work))
}

const noSpan: RelaySpan = Object.freeze({ end: () => undefined })

/** SDKs keep 128 links of a span by default. */
const maxLinks = 128

/**
 * The context of the span in which an event was written, from its headers; undefined when they hold none that is
 * valid, or OpenTelemetry is not there.
 */
export function spanContextOf(headers: TraceHeaders): SpanContext | undefined {
  const [, traceId, spanId, flags] = traceparent.exec(headers.traceparent ?? '') ?? []
  if (!api || traceId === undefined || spanId === undefined) return undefined
  const context: SpanContext = {
    traceId,
    spanId,
    traceFlags: Number.parseInt(flags ?? '0', 16) & 1,
    isRemote: true,
    ...(headers.tracestate === undefined ? {} : { traceState: api.createTraceState(headers.tracestate) }),
  }
  return api.isSpanContextValid(context) ? context : undefined
}

/** https://www.w3.org/TR/trace-context/: a later version may have more behind the flags. */
const traceparent = /^(?!ff)[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(?:-.*)?$/

function toHeaders(context: SpanContext): TraceHeaders {
  if (!api || !api.isSpanContextValid(context)) return {}
  const tracestate = context.traceState?.serialize()
  const flags = (context.traceFlags & 0xff).toString(16).padStart(2, '0')
  return {
    traceparent: `00-${context.traceId}-${context.spanId}-${flags}`,
    ...(tracestate ? { tracestate } : {}),
  }
}

function tracer({ trace }: Api) {
  return trace.getTracer('waybill')
}

async function finishing<T>(span: Span, work: () => Promise<T>): Promise<T> {
  try {
    const result = await work()
    endSpan(span)
    return result
  } catch (error) {
    endSpan(span, error)
    throw error
  }
}

function endSpan(span: Span, error?: unknown): void {
  if (!span.isRecording()) return
  if (error !== undefined && api) {
    span.setStatus({ code: api.SpanStatusCode.ERROR, message: describeError(error, 300) })
  }
  span.end()
}
