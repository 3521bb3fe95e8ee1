import { randomUUID } from 'node:crypto'
import type { Message } from '../publishing/publisher.ts'

/** A message for tests; each has an event id and an aggregate of its own. */
export function testMessage(overrides: Partial<Message> = {}): Message {
  const eventId = overrides.eventId ?? randomUUID()
  return {
    eventId,
    messageId: eventId,
    replay: null,
    aggregateType: 'contract',
    aggregateId: `aggregate-${eventId}`,
    eventType: 'contract.checked',
    topic: 'outbox.event.contract',
    body: `{"event": "${eventId}"}`,
    createdAt: '2025-03-04T05:06:07.08Z',
    revision: null,
    operationId: null,
    headers: {},
    format: 'debezium',
    url: null,
    ...overrides,
  }
}

/** Payloads that a round trip through JavaScript's numbers, or through any JSON parser, would change. */
export const delicateBodies: readonly string[] = [
  '9007199254740993',
  '1.10',
  '{}',
  '[]',
  'null',
  '"ü 🚚 \\u2028 \\\\ \\""',
  '{"b": 1, "a": 2, "": 1.50, "lineItems": [{"n": 100000000000000000000000000000.0}]}',
  `${'['.repeat(5000)}${']'.repeat(5000)}`,
  `{"text": "${'x'.repeat(1_000_000)}"}`,
]
