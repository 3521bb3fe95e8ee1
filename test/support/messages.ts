import type { StoredEvent } from '../../src/publishing/message.ts'

/** An event as the relay reads it, for tests without a database. */
export function storedEvent(overrides: Partial<StoredEvent> = {}): StoredEvent {
  return {
    id: '0190a1b2-0000-7000-8000-000000000001',
    aggregateType: 'order',
    aggregateId: 'o-1',
    eventType: 'order.created',
    body: '{"id": 1}',
    headers: '{}',
    revision: null,
    operationId: null,
    createdAtMicros: '1741064767080000',
    replay: null,
    ...overrides,
  }
}
