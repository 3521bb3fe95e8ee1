import type { Delivery } from '../../publishing/source.ts'

/** A message that was taken and is not acknowledged. */
export interface Taken {
  readonly delivery: Delivery
}

/** Makes this process the only reader, for a while. */
export interface Lease {
  /** False when another one has it. */
  acquire(): Promise<boolean>
  /** False when it was lost. */
  renew(): Promise<boolean>
  release(): Promise<void>
}

/**
 * One connection to a queue, for as long as it lasts. What it does rejects when the connection is lost, and with the
 * reason that the broker gives.
 */
export interface Reading<M extends Taken> {
  /** Null: many may read at once. */
  readonly lease: Lease | null
  /** How long messages and lease stay with a process that does not renew them, in milliseconds. */
  readonly keepMs: number
  /**
   * Waits a while for at most so many messages. First come those that were delivered before and not acknowledged:
   * under a lease all of them, whoever had them, in order. When the signal aborts, it soon answers with all that is
   * on its way.
   */
  take(most: number, signal: AbortSignal): Promise<readonly M[]>
  /** Resolves when the broker has heard it. */
  acknowledge(message: M): Promise<void>
  /** Keeps others from having them. Resolves when the broker has heard it. */
  keep(messages: readonly M[]): Promise<void>
  /** Lets them come again at once. */
  giveBack(messages: readonly M[]): Promise<void>
  /** May be called again. */
  close(): Promise<void>
}
