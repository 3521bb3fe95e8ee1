import type { ClockReport } from './statement-clock.ts'

/** Where one contestant of the drain finds its rows. */
export interface DrainTarget {
  url: string
  rows: number
}

export type Contestant =
  | { kind: 'article' }
  | { kind: 'waybill'; options: { batchSize: number; settle?: 'delete' }; publisherMs: number }
  | { kind: 'graphile'; concurrentJobs: number; localQueueSize: number }

/** Drains `warmUp`, says `warm`, waits for `go`, drains `target`, and answers with a {@link DrainResult}. */
export interface DrainJob {
  job: 'drain'
  contestant: Contestant
  warmUp: DrainTarget
  target: DrainTarget
}

export interface DrainResult {
  /** Events that the publisher was called with. */
  published: number
  /** From the first to the last call of the publisher. */
  callsMs: number
  /** From the first call of the publisher until the last of them is settled in the table. */
  settledMs: number
  /** CPU of this process from `go` on. */
  cpuMs: number
  statements: ClockReport
}

/** Runs a relay until `stop`. Says `warm` when it is started; answers `report` with a {@link RelayReport}. */
export interface RelayJob {
  job: 'relay'
  url: string
  wakeup: 'auto' | 'poll'
  /** Pause of the publisher that takes everything but aggregate type `slow`. */
  publisherMs: number
  /** A second destination for aggregate type `slow`, which takes so many events in so many milliseconds. */
  slow: { publisherMs: number; batchSize: number } | null
  /** An aggregate type whose events are never taken. */
  refuse: string | null
  /** Remember when each event of this aggregate type came to the publisher. */
  record: string | null
}

export interface RelayReport {
  /** Events that were published since the last report. */
  published: number
  /** Event id and moment of the call ({@link nowMs}), as far as recorded. */
  calls: [id: string, at: number][]
  statements: ClockReport
  /** Largest resident set since the start, in MB. */
  peakRssMb: number
}

/** Runs transactions on so many connections for so many seconds; answers with a {@link ClientsResult}. */
export interface ClientsJob {
  job: 'clients'
  url: string
  clients: number
  seconds: number
}

export interface ClientsResult {
  transactionsPerSecond: number
}

/**
 * Sends batches to a broker, one after the other, by our publisher or by the bare client. Says `warm` after some of
 * them, waits for `go`, sends the rest, and answers with a {@link PublishResult}.
 */
export interface PublishJob {
  job: 'publish'
  broker: 'kafka' | 'rabbitmq' | 'nats' | 'redis' | 'sqs' | 'sns' | 'webhook'
  by: 'waybill' | 'bare'
  /** Of the broker, as its client wants it. */
  address: string
  /** Topic or queue; it is there. */
  topic: string
  batchSize: number
  warmUpBatches: number
  batches: number
}

export interface PublishResult {
  messagesPerSecond: number
  /** CPU of this process for a thousand messages, in milliseconds. */
  cpuMsPerThousand: number
}

/** Does what an operator may do, one after the other; answers with an {@link OperationsResult}. */
export interface OperationsJob {
  job: 'operations'
  url: string
  /** Names of `operations.ts`. */
  operations: readonly string[]
  /** Batches after which `prune` ends. */
  pruneBatches: number
}

export interface OperationTimes {
  name: string
  statements: number
  slowestMs: number
  totalMs: number
}

export interface OperationsResult {
  operations: readonly OperationTimes[]
  /** Largest resident set meanwhile, in MB. */
  peakRssMb: number
}

export type Job = DrainJob | RelayJob | ClientsJob | PublishJob | OperationsJob

/** From the parent to the child. */
export type Command = 'go' | 'report' | 'stop'

/** From the child to the parent. */
export type Answer = { kind: 'warm' } | { kind: 'result'; result: unknown } | { kind: 'error'; error: string }

/** Milliseconds on a clock that all processes of a machine share (CLOCK_MONOTONIC). */
export function nowMs(): number {
  return Number(process.hrtime.bigint()) / 1e6
}

/** What a job may say to its parent. */
export interface Parent {
  warm(): void
  result(result: unknown): void
  /** Resolves with the next command. */
  command(): Promise<Command>
}
