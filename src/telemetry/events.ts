import type { EventState } from '../types.ts'

/** What every line about an event carries: the seed's four fields. */
export interface EventReference {
  eventId: string
  eventType: string
  aggregateType: string
  aggregateId: string
  /** Number of this try: counted attempts + 1. */
  attempt: number
}

/**
 * The one list of what happens inside Waybill. Logs, metrics and the dashboard are all made from it, and
 * `docs/reference/events.md` is tested against it. Payloads of events never appear here.
 */
export interface TelemetryEvents {
  'relay.started': { relayId: string; wakeup: 'auto' | 'poll' }
  'relay.stopped': { relayId: string; clean: boolean }
  /** The set of owned buckets changed. */
  'relay.buckets': { owned: number; taken: number; released: number }
  /** A bucket was found to belong to another relay: its work in memory was dropped. */
  'relay.lease_lost': { bucket: number; epoch: string; dropped: number }
  /** A bucket was taken from a relay that died: its first events are handled with care. */
  'relay.crash_suspected': { bucket: number; previousOwner: string }
  'database.down': { error: string }
  'database.up': { downMs: number }
  /** Why the relay looked for work. */
  'relay.wakeup': { source: 'notify' | 'poll' | 'safety' | 'retry' }
  'listener.down': { error: string }
  'listener.up': Record<never, never>
  /** A transaction pooler stands between: no LISTEN, the relay polls. */
  'listener.pooled': Record<never, never>
  'destination.down': { destination: string; error: string }
  'destination.up': { destination: string; downMs: number }
  /** One publish call and its outcome; `latenciesMs` from insert to confirmation, one for each published event. */
  'batch.finished': {
    destination: string
    durationMs: number
    published: number
    failed: number
    latenciesMs: readonly number[]
  }
  /** An event failed; `counted` tells whether the try is counted against it. */
  'event.failed': EventReference & { destination: string; error: string; counted: boolean; retryInMs: number }
  'event.dead': EventReference & { destination: string | null; error: string; holds: boolean }
  /** Events that five equal refusals had made dead letters went back: the destination is wrong, not they. */
  'event.restored': { destination: string; count: number; error: string }
  /** A deliberate replay was tried; `pending`: it will be tried again. */
  'replay.sent': {
    eventId: string
    number: number
    state: 'relayed' | 'pending' | 'dead'
    error: string | null
  }
  /** A header of the event was left out because the destination reserves its name; told once for each name. */
  'header.dropped': { eventId: string; header: string; destination: string }
  /** Counts of the whole outbox, taken by one relay every few seconds. */
  'sample.taken': OutboxSample & { durationMs: number }
  'sample.failed': { error: string }
  /** The publications were audited, by one relay for all. */
  'audit.taken': { publications: number; checked: number; symptoms: number; durationMs: number }
  /** `publication` is null when no audit could be begun. */
  'audit.failed': { publication: string | null; error: string }
  'prune.finished': { deleted: number; durationMs: number }
  'prune.failed': { error: string }
  'loop.failed': { error: string }
  'consumer.started': { consumer: string; source: string; subscription: string | null }
  'consumer.stopped': { consumer: string; clean: boolean }
  /** An event came to its end: its transaction committed, or it had been handled before. */
  'consumer.handled': EventReference & {
    consumer: string
    result: 'applied' | 'stale' | 'duplicate'
    durationMs: number
    /** From the insert of the event to now; null when that is not known. */
    latencyMs: number | null
  }
  /** A try failed and will be made again. */
  'consumer.failed': EventReference & { consumer: string; error: string; counted: boolean; retryInMs: number }
  /** An event became a dead letter of this consumer. */
  'consumer.dead': EventReference & { consumer: string; error: string }
  /** A message that is no event became a dead letter of this consumer. */
  'consumer.invalid': { consumer: string; eventId: string; origin: string; error: string }
  /** An event waits for the revisions before it. */
  'consumer.parked': EventReference & { consumer: string; projection: string; error: string }
  /** No handler for this type; told once for each type. */
  'consumer.skipped': { consumer: string; eventType: string }
  /** Another process under this name reads something else: two services share one memory by mistake. */
  'consumer.conflict': {
    consumer: string
    host: string
    processId: number
    subscription: string
    here: string
  }
  'consumer.cleaned': { consumer: string; deleted: number }
  'consumer.clean_failed': { consumer: string; error: string }
  'source.down': { consumer: string; source: string; error: string }
  'source.up': { consumer: string; source: string; downMs: number }
  /** Somebody put dead letters back through this process. */
  'dead_letters.retried': { matched: number; changed: number; decidedBy: string }
  /** Somebody gave dead letters up through this process. */
  'dead_letters.discarded': { matched: number; changed: number; decidedBy: string }
  /** Somebody put dead letters of a consumer back through this process. */
  'consumer.retried': { consumer: string; changed: number; decidedBy: string }
  /** Somebody gave dead letters of a consumer up through this process. */
  'consumer.discarded': { consumer: string; changed: number; decidedBy: string }
  /** Somebody let a projection go on without missing revisions through this process. */
  'consumer.released': {
    consumer: string
    projection: string
    aggregateType: string
    aggregateId: string
    skippedFrom: string | null
    skippedTo: string
    decidedBy: string
  }
  /** The HTTP server takes requests. */
  'admin.listening': { url: string }
  /** A request failed for a reason that lies with us. */
  'admin.failed': { method: string; path: string; error: string }
}

export type TelemetryEventName = keyof TelemetryEvents

/**
 * A bounded count of everything in the outbox. A count stops at `countLimit` (1 000 000) and is then shown as
 * `1000000+`.
 */
export interface OutboxSample {
  /** When it was taken, on the database's clock, ISO 8601. */
  sampledAt: string
  counts: Readonly<Record<Exclude<EventState, 'published' | 'discarded'>, number>>
  blockedAggregates: number
  /** Age of the oldest pending event in seconds, null when none is pending. */
  oldestPendingAgeSeconds: number | null
}

export const countLimit = 1_000_000

/**
 * How long to wait, in milliseconds, from one audit to the next when the last one took so long: audits take at most a
 * twentieth of the time, but are made once an hour at least.
 */
export function auditPauseMs(durationMs: number): number {
  return Math.min(durationMs * 20, 3_600_000)
}

type Listener<Name extends TelemetryEventName> = (event: TelemetryEvents[Name]) => void

/** Carries what happens to whoever wants to know. A listener that throws never disturbs the work. */
export interface Telemetry {
  emit<Name extends TelemetryEventName>(name: Name, event: TelemetryEvents[Name]): void
  on<Name extends TelemetryEventName>(name: Name, listener: Listener<Name>): () => void
  /** Receives every event, in the order in which they happen. */
  onAny(listener: (name: TelemetryEventName, event: TelemetryEvents[TelemetryEventName]) => void): () => void
}

export function createTelemetry(): Telemetry {
  const named = new Map<TelemetryEventName, Set<(event: never) => void>>()
  const any = new Set<(name: TelemetryEventName, event: TelemetryEvents[TelemetryEventName]) => void>()
  return {
    emit(name, event) {
      for (const listener of named.get(name) ?? []) guarded(() => listener(event as never))
      for (const listener of any) guarded(() => listener(name, event))
    },
    on(name, listener) {
      const listeners = named.get(name) ?? new Set()
      named.set(name, listeners.add(listener))
      return () => listeners.delete(listener)
    },
    onAny(listener) {
      any.add(listener)
      return () => any.delete(listener)
    },
  }
}

function guarded(run: () => void): void {
  try {
    run()
  } catch {
    // A broken log transport must not stop a delivery.
  }
}
