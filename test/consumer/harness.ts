import { randomUUID } from 'node:crypto'
import {
  type Consumer,
  type ConsumerOptions,
  type InProcessSource,
  createConsumer,
  inProcessSource,
} from '../../src/consumer/index.ts'
import { createEncoder } from '../../src/publishing/format.ts'
import type { Message } from '../../src/publishing/publisher.ts'
import type { Delivery, Receiver, Source } from '../../src/publishing/source.ts'
import { createTelemetry, type TelemetryEventName, type TelemetryEvents } from '../../src/telemetry/events.ts'
import { testMessage } from '../../src/testing/index.ts'
import { atEndOfFile } from '../support/cleanups.ts'
import type { TestDatabase } from '../support/postgres.ts'

/** A source in the test's own hand, which holds as a queue does. */
export interface HandSource extends Source {
  deliver(delivery: Delivery): ReturnType<Receiver>
}

export function handSource({ holding = true, subscription = null as string | null } = {}): HandSource {
  let receiver: Receiver | undefined
  return {
    name: 'hand',
    subscription,
    capabilities: { ordering: 'aggregate', holding },
    deliver: (delivery) => receiver!(delivery),
    async start(receive) {
      receiver = receive
    },
    async stop() {},
  }
}

export function toDelivery(message: Message, changes: Partial<Delivery> = {}): Delivery {
  const { body, contentType, headers } = createEncoder({ binding: 'plain' }).encode(message)
  return {
    ...{ binding: 'plain', body, headers, contentType, topic: message.topic, key: message.aggregateId },
    ...{ origin: `hand:${message.messageId}`, redelivered: false },
    ...changes,
  }
}

export interface TestConsumer extends Consumer {
  readonly source: HandSource
  /** Hands a message over and answers what became of it. */
  deliver(message: Message, changes?: Partial<Delivery>): ReturnType<Receiver>
  events<Name extends TelemetryEventName>(name: Name): TelemetryEvents[Name][]
  until<Name extends TelemetryEventName>(
    name: Name,
    matches?: (event: TelemetryEvents[Name]) => boolean,
  ): Promise<TelemetryEvents[Name]>
}

export type TestConsumerOptions = Partial<ConsumerOptions> & { source?: HandSource }

/** A consumer on a test's database, started, that remembers what it told; stopped at the end of the file. */
export async function testConsumer(
  database: Pick<TestDatabase, 'url' | 'schema'>,
  options: TestConsumerOptions & Pick<ConsumerOptions, 'handlers'>,
): Promise<TestConsumer> {
  const telemetry = createTelemetry()
  const seen: { name: TelemetryEventName; event: unknown }[] = []
  telemetry.onAny((name, event) => void seen.push({ name, event }))
  const source = options.source ?? handSource()
  const consumer = createConsumer({
    name: `consumer-${randomUUID()}`,
    database: database.url,
    schema: database.schema,
    retryBaseMs: 5,
    retryMaxMs: 50,
    pollIntervalMs: 20,
    telemetry,
    ...options,
    source,
  })
  atEndOfFile(() => consumer.stop({ graceMs: 500 }).then(() => undefined))
  await consumer.start()
  const events = <Name extends TelemetryEventName>(name: Name) =>
    seen.filter((item) => item.name === name).map((item) => item.event as TelemetryEvents[Name])
  return {
    ...consumer,
    source,
    deliver: (message, changes) => source.deliver(toDelivery(message, changes)),
    events,
    until: (name, matches = () => true) =>
      new Promise((resolve) => {
        const check = () => {
          const found = events(name).find(matches)
          if (found !== undefined) resolve(found)
          return found !== undefined
        }
        if (check()) return
        const off = telemetry.onAny((emitted) => {
          if (emitted === name && check()) off()
        })
      }),
  }
}

/** A message of the type `note.published`; each of an aggregate of its own unless told otherwise. */
export function note(overrides: Partial<Message> = {}): Message {
  return testMessage({ aggregateType: 'note', eventType: 'note.published', ...overrides })
}

export interface Deferred<T = void> {
  readonly promise: Promise<T>
  readonly resolve: (value: T) => void
}

export function deferred<T = void>(): Deferred<T> {
  let resolve!: (value: T) => void
  const promise = new Promise<T>((done) => (resolve = done))
  return { promise, resolve }
}

export { inProcessSource, type InProcessSource }
