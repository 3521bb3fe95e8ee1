import { SpanKind, SpanStatusCode, context, createTraceState, trace } from '@opentelemetry/api'
import { InMemorySpanExporter, NodeTracerProvider, SimpleSpanProcessor } from '@opentelemetry/sdk-trace-node'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { pg as pgClient } from '../../src/clients/pg.ts'
import { createOutbox } from '../../src/index.ts'
import { loadTraces, spanContextOf, startRelaySpan } from '../../src/telemetry/traces.ts'
import { type TestDatabase, createTestDatabase } from '../support/postgres.ts'
import { testSchema } from '../support/target.ts'

let db: TestDatabase
const outbox = createOutbox({ client: pgClient(), schema: testSchema })
const event = { type: 'order.created', aggregate: ['order', 'o-1'] as const, payload: {} }
const spans = new InMemorySpanExporter()
const provider = new NodeTracerProvider({ spanProcessors: [new SimpleSpanProcessor(spans)] })
const tracer = trace.getTracer('test')

beforeAll(async () => {
  db = await createTestDatabase()
})
afterEach(async () => {
  spans.reset()
  await db.query('ROLLBACK')
  await db.query('TRUNCATE "waybill".outbox_events')
})
afterAll(() => provider.shutdown())

const publish = async (headers: Record<string, string> = {}) => {
  await db.query('BEGIN')
  await outbox.publish(db.client, [
    { ...event, headers },
    { ...event, headers },
  ])
  await db.query('COMMIT')
}
const storedHeaders = async () =>
  (await db.rows('SELECT headers FROM "waybill".outbox_events')).map((row) => row.headers)
const finished = () => spans.getFinishedSpans()

describe('without an OpenTelemetry SDK', () => {
  test('events carry no trace, and an own traceparent stays', async () => {
    await publish({ traceparent: 'mine' })
    expect(await storedHeaders()).toEqual([{ traceparent: 'mine' }, { traceparent: 'mine' }])
    expect(spanContextOf({ traceparent: 'mine' })).toBeUndefined()
  })
})

describe('with an OpenTelemetry SDK', () => {
  beforeAll(() => provider.register())

  test('publish is a PRODUCER span below the active one, and each event carries its context', async () => {
    const request = tracer.startSpan('request')
    await context.with(trace.setSpan(context.active(), request), () => publish({ tenant: 'acme' }))
    const [span] = finished()
    expect(span).toMatchObject({
      name: 'outbox publish',
      kind: SpanKind.PRODUCER,
      parentSpanContext: { spanId: request.spanContext().spanId },
      attributes: { 'messaging.batch.message_count': 2, 'waybill.event_types': ['order.created'] },
    })
    const { traceId, spanId } = span!.spanContext()
    expect(traceId).toBe(request.spanContext().traceId)
    const expected = { tenant: 'acme', traceparent: `00-${traceId}-${spanId}-01` }
    expect(await storedHeaders()).toEqual([expected, expected])
    request.end()
  })

  test("an event's own headers cannot replace the active trace", async () => {
    await publish({ TraceParent: 'mine', tracestate: 'mine=1', tenant: 'acme' })
    const [headers] = await storedHeaders()
    expect(headers).toEqual({ tenant: 'acme', traceparent: expect.stringMatching(/^00-[0-9a-f]{32}-/) })
  })

  test('the trace state travels along', async () => {
    const remote = {
      traceId: '0af7651916cd43dd8448eb211c80319c',
      spanId: 'b7ad6b7169203331',
      traceFlags: 1,
      traceState: createTraceState('vendor=a,other=b'),
    }
    await context.with(trace.setSpanContext(context.active(), remote), () =>
      publish({ tracestate: 'mine=1' }),
    )
    const [headers] = await storedHeaders()
    expect(headers.tracestate).toBe('vendor=a,other=b')
    expect(spanContextOf(headers)?.traceState?.get('other')).toBe('b')
  })

  test('queries of publish run inside its span', async () => {
    const active: unknown[] = []
    const spying = createOutbox<object>({
      client: {
        name: 'spy',
        query() {
          active.push(trace.getActiveSpan()?.spanContext().spanId)
          return Promise.resolve([{ answer: 'true' }])
        },
      },
    })
    await spying.publish({}, event)
    expect(active).toEqual([finished()[0]!.spanContext().spanId])
  })

  test('a failure is on the span', async () => {
    await expect(outbox.publish(db.client, event)).rejects.toMatchObject({ code: 'NOT_IN_TRANSACTION' })
    expect(finished()[0]!.status).toEqual({
      code: SpanStatusCode.ERROR,
      message: expect.stringContaining('inside a transaction'),
    })
  })

  test('an event that is refused before any SQL makes no span', async () => {
    await expect(outbox.publish(db.client, { ...event, type: '' })).rejects.toMatchObject({
      code: 'EVENT_INVALID',
    })
    expect(finished()).toEqual([])
  })

  test('the relay makes a span of its own, linked with the traces of its events', async () => {
    await loadTraces()
    expect(loadTraces()).toBeUndefined()
    await publish()
    const [published] = finished()
    const [headers] = await storedHeaders()
    const relaySpan = startRelaySpan({
      destination: 'bus',
      messages: [{ headers }, { headers: {} }, { headers: { traceparent: 'nonsense' } }],
    })
    relaySpan.end(new Error('the broker is away'))
    relaySpan.end()
    expect(finished()).toHaveLength(2)
    const span = finished()[1]!
    expect(span).toMatchObject({
      name: 'outbox relay',
      kind: SpanKind.CLIENT,
      attributes: { 'messaging.destination.name': 'bus', 'messaging.batch.message_count': 3 },
      status: { code: SpanStatusCode.ERROR, message: 'the broker is away' },
    })
    expect(span.spanContext().traceId).not.toBe(published!.spanContext().traceId)
    expect(span.links.map((link) => link.context.spanId)).toEqual([published!.spanContext().spanId])
  })

  test.each([
    [undefined],
    ['00-00000000000000000000000000000000-b7ad6b7169203331-01'],
    ['00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01'],
    ['ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'],
    ['00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01'],
    ['00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331'],
  ])('a traceparent that is not valid is no context: %s', (traceparent) => {
    expect(spanContextOf(traceparent === undefined ? {} : { traceparent })).toBeUndefined()
  })

  test('a traceparent of a later version is read as far as it is known', () => {
    const traceparent = '01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-later'
    expect(spanContextOf({ traceparent })).toMatchObject({
      spanId: 'b7ad6b7169203331',
      traceFlags: 1,
      isRemote: true,
    })
  })
})
