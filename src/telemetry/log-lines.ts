import type { TelemetryEventName, TelemetryEvents } from './events.ts'

/** Levels of the log, from the most to the least talkative; `silent` says nothing. */
export const logLevels = ['trace', 'debug', 'info', 'warn', 'error', 'silent'] as const
export type LogLevel = (typeof logLevels)[number]
type LineLevel = Exclude<LogLevel, 'silent'>

/** How one event becomes a line. */
export interface LogLine<Name extends TelemetryEventName> {
  readonly level: LineLevel | ((event: TelemetryEvents[Name]) => LineLevel)
  readonly message: string
}

/**
 * One line for each change of state. What happens over and over (a look for work, a batch, a further try of an
 * event that is known to fail) is on `debug` or `trace`.
 */
export const logLines: { readonly [Name in TelemetryEventName]: LogLine<Name> } = {
  'relay.started': { level: 'info', message: 'relay started' },
  'relay.stopped': { level: ({ clean }) => (clean ? 'info' : 'error'), message: 'relay stopped' },
  'relay.buckets': { level: 'info', message: 'owned buckets changed' },
  'relay.lease_lost': {
    level: 'warn',
    message: 'another relay owns a bucket now, its work here was dropped',
  },
  'relay.crash_suspected': {
    level: 'warn',
    message:
      'took a bucket from a relay that died, its first events go in groups that shrink with each death',
  },
  'database.down': { level: 'error', message: 'database is away, waiting for it' },
  'database.up': { level: 'info', message: 'database is back' },
  'relay.wakeup': { level: 'trace', message: 'looking for work' },
  'listener.down': { level: 'warn', message: 'notifications are lost, polling until they are back' },
  'listener.up': { level: 'info', message: 'listening for notifications' },
  'listener.pooled': {
    level: 'warn',
    message: 'a transaction pooler stands between, so notifications cannot come: polling',
  },
  'destination.down': {
    level: 'error',
    message: 'destination is away, its events wait and no attempt is counted',
  },
  'destination.up': { level: 'info', message: 'destination is back' },
  'batch.finished': { level: 'debug', message: 'batch finished' },
  'event.failed': {
    // The first counted failure makes the event "retrying"; the others change nothing but the count.
    level: ({ counted, attempt }) => (counted && attempt === 1 ? 'warn' : 'debug'),
    message: 'event failed, it will be tried again',
  },
  'event.dead': { level: 'error', message: 'event is a dead letter now' },
  'event.restored': {
    level: 'warn',
    message: 'equal refusals in a row: the destination is taken for wrong, its events went back',
  },
  'replay.sent': {
    level: ({ state }) => (state === 'dead' ? 'error' : 'info'),
    message: 'a replay was tried',
  },
  'header.dropped': { level: 'warn', message: 'a header was left out, the destination reserves its name' },
  'sample.taken': { level: 'trace', message: 'counted the outbox' },
  'sample.failed': { level: 'warn', message: 'the outbox could not be counted' },
  'audit.taken': { level: 'trace', message: 'audited the publications' },
  'audit.failed': { level: 'warn', message: 'a publication could not be audited' },
  'prune.finished': {
    level: ({ deleted }) => (deleted > 0 ? 'info' : 'debug'),
    message: 'removed events past their retention',
  },
  'prune.failed': { level: 'error', message: 'retention failed, it is tried again' },
  'loop.failed': { level: 'error', message: 'unexpected error, the relay goes on' },
  'consumer.started': { level: 'info', message: 'consumer started' },
  'consumer.stopped': { level: ({ clean }) => (clean ? 'info' : 'error'), message: 'consumer stopped' },
  'consumer.handled': { level: 'debug', message: 'event handled' },
  'consumer.failed': {
    level: ({ attempt }) => (attempt === 1 ? 'warn' : 'debug'),
    message: 'handler failed, the event will be tried again',
  },
  'consumer.dead': { level: 'error', message: 'event is a dead letter of this consumer now' },
  'consumer.invalid': { level: 'error', message: 'a message that is no event is a dead letter now' },
  'consumer.parked': { level: 'warn', message: 'event waits for the revisions before it' },
  'consumer.skipped': { level: 'warn', message: 'events of a type without a handler are left out' },
  'consumer.conflict': {
    level: 'error',
    message:
      'another process reads something else under this name: events that it handles are lost here, give each service its own',
  },
  'consumer.cleaned': {
    level: ({ deleted }) => (deleted > 0 ? 'info' : 'debug'),
    message: 'removed old entries of the dedupe memory',
  },
  'consumer.clean_failed': { level: 'error', message: 'clean-up failed, it is tried again' },
  'source.down': { level: 'error', message: 'source is away, nothing arrives' },
  'source.up': { level: 'info', message: 'source is back' },
  'dead_letters.retried': { level: 'info', message: 'dead letters were put back' },
  'dead_letters.discarded': { level: 'info', message: 'dead letters were discarded' },
  'consumer.retried': { level: 'info', message: 'dead letters of a consumer were put back' },
  'consumer.discarded': { level: 'info', message: 'dead letters of a consumer were discarded' },
  'consumer.released': { level: 'info', message: 'a projection goes on without missing revisions' },
  'admin.listening': { level: 'info', message: 'HTTP server listens' },
  'admin.failed': { level: 'error', message: 'an HTTP request failed' },
}

/** The name of every telemetry event. */
export const telemetryEventNames = Object.keys(logLines) as readonly TelemetryEventName[]

/** Fields that would make a line long without telling anything. */
const leftOut: ReadonlySet<string> = new Set(['latenciesMs'])

/** The fields of a line: those of the event, in snake case (`event_id`, `aggregate_id`, `retry_in_ms`). */
export function logFields(name: TelemetryEventName, event: object): Record<string, unknown> {
  const fields: Record<string, unknown> = { event: name }
  for (const [key, value] of Object.entries(event)) {
    if (!leftOut.has(key)) fields[snakeCase(key)] = value
  }
  return fields
}

function snakeCase(key: string): string {
  return key.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
}
