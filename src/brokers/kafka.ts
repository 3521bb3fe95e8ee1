import { describeError } from '../errors.ts'
import { configurationInvalid, resolveOptions } from '../options.ts'
import { createSharedAbort } from '../pause.ts'
import { createEncoder } from '../publishing/format.ts'
import { type Message, type Publisher, brokerUnavailable, unprepared } from '../publishing/publisher.ts'
import { whenAborted } from './abort.ts'
import type { Broker } from './broker.ts'
import { loadDependency } from './dependency.ts'
import { type Refused, type Send, createDelivery } from './kafka/delivery.ts'
import { type Outgoing, byKey } from './kafka/groups.ts'
import { failureOf } from './kafka/outcomes.ts'
import { type Pool, createPool } from './kafka/pool.ts'
import { type KafkaProducer, sendWith } from './kafka/ready.ts'
import { toRecord } from './kafka/record.ts'
import { type KafkaLibrary, createSessionMaker } from './kafka/session.ts'
import {
  type KafkaOptions,
  type KafkaProducerOptions,
  type KafkaSettings,
  kafkaOptions,
  kafkaProducerOptions,
} from './kafka-options.ts'

export type { KafkaOptions, KafkaProducerOptions, KafkaSourceOptions } from './kafka-options.ts'
export type { KafkaProducer } from './kafka/ready.ts'
export { kafkaSource } from './kafka-source.ts'

/**
 * Publishes to Apache Kafka: idempotent, confirmed by all replicas, the aggregate id as key, the topic as the route
 * gives it. Needs the package `kafkajs`.
 *
 * @throws CONFIGURATION_INVALID, DEPENDENCY_MISSING
 */
export async function kafkaPublisher(options: KafkaOptions & { name?: string }): Promise<Publisher> {
  const { name = 'kafka', ...rest } = options
  return createOwn(name, resolveOptions(kafkaOptions, rest, { path: name }))
}

/**
 * Publishes through a producer that you have made: of `@confluentinc/kafka-javascript`, or any with the `sendBatch`
 * of KafkaJS. It must be connected and wait for all replicas, and stays yours: `close` does not disconnect it. The
 * events of one aggregate go one after the other.
 *
 * @throws CONFIGURATION_INVALID, also for an idempotent producer of KafkaJS: after a failed call it may confirm
 *   messages that it lost, unless it is replaced, which only {@link kafkaPublisher} can do
 */
export function kafkaProducerPublisher(
  producer: KafkaProducer,
  options: KafkaProducerOptions & { name?: string } = {},
): Publisher {
  const { name = 'kafka', ...rest } = options
  if (producer.isIdempotent?.() === true) {
    throw configurationInvalid([
      'expected a producer that may be used again after a failed call, got an idempotent one of KafkaJS: ' +
        'use kafkaPublisher, which replaces it',
    ])
  }
  const settings = resolveOptions(kafkaProducerOptions, rest, { path: name })
  return createPublisher(name, settings, 'per-call', {
    send: (group, call) => sendWith(producer, group, call),
    close: async () => undefined,
  })
}

export const broker: Broker<typeof kafkaOptions> = { options: kafkaOptions, create: createOwn }

async function createOwn(name: string, settings: KafkaSettings): Promise<Publisher> {
  const library: KafkaLibrary = await loadDependency('kafka', 'kafkajs', () => import('kafkajs'))
  return createPublisher(name, settings, 'batch', createPool(createSessionMaker(library, settings)))
}

function createPublisher(
  name: string,
  settings: { readonly maxMessageBytes: number; readonly cloudEventsSource: string },
  ordering: 'batch' | 'per-call',
  pool: Pick<Pool, 'send' | 'close'> & Partial<Pick<Pool, 'check'>>,
): Publisher {
  const { maxMessageBytes, cloudEventsSource } = settings
  const encoder = createEncoder({ binding: 'kafka', cloudEventsSource })
  const delivery = createDelivery({ name, maxMessageBytes })
  const closing = createSharedAbort()

  function prepare(message: Message): Outgoing | Refused {
    try {
      return { message, ...toRecord(message, encoder, maxMessageBytes) }
    } catch (error) {
      return { message, result: unprepared(error) }
    }
  }

  async function checkHealth(signal: AbortSignal): Promise<void> {
    if (closing.signal.aborted) throw brokerUnavailable(`${name} is closed`)
    const call = whenAborted(signal, closing.signal)
    try {
      await pool.check!(call)
    } catch (cause) {
      if (failureOf(cause) === undefined && !call.aborted) throw cause
      throw brokerUnavailable(`${name}: ${describeError(cause, 300)}`, { cause })
    } finally {
      call.release()
    }
  }

  return {
    name,
    capabilities: { ordering, deduplication: false, maxMessageBytes },
    observe: (observer) => encoder.observe(observer),
    ...(pool.check === undefined
      ? {}
      : {
          connect: ({ signal }) => checkHealth(signal),
          checkHealth: ({ signal }) => checkHealth(signal),
        }),
    async publish(messages, { signal }) {
      if (closing.signal.aborted) throw brokerUnavailable(`${name} is closed`)
      const call = whenAborted(signal, closing.signal)
      try {
        const prepared = messages.map(prepare)
        const send: Send = (group) => pool.send(group, call)
        // Where order does not bind them, no topic waits for another: librdkafka looks for one that is missing for long.
        const parts = ordering === 'batch' ? [prepared] : byKey(prepared, ({ message }) => message.topic)
        await Promise.all(parts.map((part) => delivery.deliver(part, send)))
        return prepared.map(({ result }) => result!)
      } finally {
        call.release()
      }
    },
    async close() {
      closing.abort()
      await pool.close()
    },
  }
}
