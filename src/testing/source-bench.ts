import type { Message } from '../publishing/publisher.ts'
import type { Source } from '../publishing/source.ts'

/** What a source and the bench around it can do: says which checks apply. */
export interface SourceFeatures {
  /** As in the source's capabilities. */
  ordering: 'aggregate' | 'none'
  /** As in the source's capabilities. */
  holding: boolean
  /** Own headers reach the source. */
  headers: boolean
  /** The bench can cut connections that are in use. */
  cut: boolean
  /** The bench can stop the broker and start it again, without loss of messages. */
  restart: boolean
}

/** A real broker with a queue of its own. */
export interface SourceBench {
  /** Another source for the same queue and the same group. At most one of them is at work at a time. */
  create(): Source | Promise<Source>
  /**
   * Sends messages in this order, through the real publisher. Resolves when the broker has them; where there is none
   * (HTTP), at once, and goes on trying in the background as a relay does: in order for each aggregate.
   */
  send(messages: readonly Message[]): Promise<void>
  /** Ends the connections in use, as a fault of the network does. */
  cut?(): Promise<void>
  stop?(): Promise<void>
  start?(): Promise<void>
  /** How long a message may take to arrive, or to come again, in milliseconds. Default: 20 000. */
  readonly patienceMs?: number
  tearDown(): Promise<void>
}

export interface SourceSubject {
  /** For the title of the tests. */
  name: string
  features: SourceFeatures
  setUp(): Promise<SourceBench>
}
