import type { Publisher } from '../publishing/publisher.ts'

/** What a publisher and the bench around it can do: says which checks apply. */
export interface PublisherFeatures {
  /** As in the publisher's capabilities. */
  ordering: 'batch' | 'per-call'
  /** Own headers reach the consumer. */
  headers: boolean
  /** A body of `maxMessageBytes` + 1 is refused. */
  oversize: boolean
  /** Headers that this publisher cannot carry, if there are any. */
  unencodableHeaders?: Readonly<Record<string, string>>
  /** The bench can cut connections that are in use. */
  cut: boolean
  /** The bench can stop the destination and start it again. */
  restart: boolean
  /** The bench can make a publisher whose exchange, topic or queue does not exist. */
  misaddressed: boolean
}

/** One message as a consumer of the destination got it. */
export interface ReceivedMessage {
  /** What the broker's own deduplication sees: AMQP `message_id`, `webhook-id` … */
  messageId: string
  /** The event's own id, the same for a replay. */
  eventId: string
  /** The payload, byte for byte. */
  body: string
  /** At least the event's own headers, where `features.headers` says that they arrive. */
  headers: Readonly<Record<string, string>>
}

/** A real destination with its other end. */
export interface PublisherBench {
  /** Another publisher to the same destination. */
  create(): Publisher | Promise<Publisher>
  /** Everything that has arrived so far, in order of arrival. */
  received(): readonly ReceivedMessage[] | Promise<readonly ReceivedMessage[]>
  /** Ends the connections in use, as a fault of the network does. */
  cut?(): Promise<void>
  stop?(): Promise<void>
  start?(): Promise<void>
  /** A publisher whose exchange, topic or queue does not exist. */
  misaddressed?(): Publisher | Promise<Publisher>
  /** How long a message may take to arrive, or a publisher to get through again, in milliseconds. Default: 20 000. */
  readonly patienceMs?: number
  tearDown(): Promise<void>
}

export interface PublisherSubject {
  /** For the title of the tests. */
  name: string
  features: PublisherFeatures
  setUp(): Promise<PublisherBench>
}

/** The functions of a test runner: those of vitest, jest and mocha fit, and of `node:test` (`after` as `afterAll`). */
export interface TestRunner {
  readonly describe: (name: string, define: () => void) => unknown
  readonly it: (name: string, run: () => Promise<void>) => unknown
  readonly afterAll: (run: () => Promise<void>) => unknown
}
