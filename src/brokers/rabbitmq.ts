import { describeError } from '../errors.ts'
import { resolveOptions } from '../options.ts'
import { createEncoder } from '../publishing/format.ts'
import {
  type Message,
  type Publisher,
  type PublishResult,
  brokerUnavailable,
  undeliverable,
  unprepared,
} from '../publishing/publisher.ts'
import { beforeAbort } from './abort.ts'
import { connectionOptions, frameBytesWanted, where } from './amqp/connection-options.ts'
import { type Enveloped, toEnvelope } from './amqp/envelope.ts'
import { closedByMessage, failureOf, toResult, wasInterrupted } from './amqp/outcomes.ts'
import { type ConnectionClass, type Delivery, type Session, openSession } from './amqp/session.ts'
import type { Broker } from './broker.ts'
import { loadDependency } from './dependency.ts'
import { type RabbitmqOptions, type RabbitmqSettings, rabbitmqOptions } from './rabbitmq-options.ts'

export type { RabbitmqOptions } from './rabbitmq-options.ts'
export { rabbitmqSource } from './rabbitmq-source.ts'
export type { RabbitmqSourceOptions } from './rabbitmq-source.ts'

/**
 * Publishes to an exchange of RabbitMQ, with confirms: persistent messages, `mandatory`, and the properties and
 * headers that `docs/brokers/rabbitmq.md` lists. Needs the package `rabbitmq-client`.
 *
 * @throws CONFIGURATION_INVALID, DEPENDENCY_MISSING
 */
export async function rabbitmqPublisher(options: RabbitmqOptions & { name?: string }): Promise<Publisher> {
  const { name = 'rabbitmq', ...rest } = options
  return createPublisher(name, resolveOptions(rabbitmqOptions, rest, { path: name }))
}

export const broker: Broker<typeof rabbitmqOptions> = { options: rabbitmqOptions, create: createPublisher }

async function createPublisher(name: string, settings: RabbitmqSettings): Promise<Publisher> {
  const library = await loadDependency('rabbitmq', 'rabbitmq-client', () => import('rabbitmq-client'))
  const Connection = library.Connection as unknown as ConnectionClass
  const { url, exchange, maxMessageBytes, cloudEventsSource } = settings
  const encoder = createEncoder({ binding: 'amqp', cloudEventsSource })
  let frameBytes = frameBytesWanted
  let current: Session | undefined
  let closed = false

  /** @throws BROKER_UNAVAILABLE after close, also for a call that was under way then */
  function connect(): Session {
    if (closed) throw brokerUnavailable(`${name} is closed`)
    if (current?.alive === true) return current
    current = openSession(Connection, connectionOptions(settings, name, frameBytes))
    return current
  }

  /** @throws BROKER_UNAVAILABLE */
  async function session(signal: AbortSignal): Promise<Session> {
    const opened = connect()
    try {
      await beforeAbort(signal, opened.ready)
    } catch (cause) {
      throw brokerUnavailable(`cannot connect to ${where(url)}: ${describeError(cause, 300)}`, { cause })
    }
    if (opened.frameBytes < frameBytes) {
      frameBytes = opened.frameBytes
      opened.destroy()
      return session(signal)
    }
    if (opened.blocked !== undefined) {
      throw brokerUnavailable(`${where(url)} takes no messages now (${opened.blocked})`)
    }
    return opened
  }

  function prepare(message: Message): Enveloped | PublishResult {
    try {
      const enveloped = toEnvelope(message, encoder, settings)
      if (enveloped.headerBytes > frameBytes) {
        throw undeliverable(`the headers are larger than the ${frameBytes} bytes of one frame`)
      }
      return enveloped
    } catch (error) {
      return unprepared(error)
    }
  }

  /**
   * One message that the broker does not want closes the channel under all others, and the broker does not say
   * which one it was: so those without a confirm are sent again, one by one.
   */
  async function isolate(messages: readonly Enveloped[], deliveries: Delivery[], signal: AbortSignal) {
    for (const [index, message] of messages.entries()) {
      if (!wasInterrupted(deliveries[index]) || signal.aborted) continue
      const [alone] = await send(await session(signal), [message], signal)
      deliveries[index] = alone
    }
  }

  async function sendAll(messages: readonly Enveloped[], signal: AbortSignal): Promise<PublishResult[]> {
    const used = await session(signal)
    const deliveries = await send(used, messages, signal)
    const outage = deliveries.find(
      (delivery) => delivery instanceof Error && failureOf(delivery) === 'exchange',
    )
    if (outage !== undefined) {
      // All go to one exchange, so what was said about it concerns each of them.
      deliveries.forEach((delivery, index) => {
        if (wasInterrupted(delivery)) deliveries[index] = outage
      })
    } else if (messages.length > 1 && deliveries.some(closedByMessage)) {
      // When the connection is lost meanwhile, the rest keeps the answer that it has.
      await isolate(messages, deliveries, signal).catch(() => undefined)
    }
    const { blocked } = used
    return messages.map((message, index) => toResult(message, deliveries[index], { name, blocked }))
  }

  /** @throws BROKER_UNAVAILABLE when nothing was sent */
  async function send(
    used: Session,
    messages: readonly Enveloped[],
    signal: AbortSignal,
  ): Promise<Delivery[]> {
    try {
      return await used.send(messages, signal)
    } catch (cause) {
      throw brokerUnavailable(`${where(url)}: ${describeError(cause, 300)}`, { cause })
    }
  }

  return {
    name,
    capabilities: { ordering: 'per-call', deduplication: false, maxMessageBytes },
    observe: (observer) => encoder.observe(observer),
    connect: ({ signal }) => checkHealth(signal),
    async publish(messages, { signal }) {
      if (closed) throw brokerUnavailable(`${name} is closed`)
      const prepared = messages.map(prepare)
      const good = prepared.filter((item) => 'envelope' in item)
      const sent = good.length === 0 ? [] : await sendAll(good, signal)
      let next = 0
      return prepared.map((item) => ('envelope' in item ? sent[next++]! : item))
    },
    checkHealth: ({ signal }) => checkHealth(signal),
    async close() {
      closed = true
      await current?.close()
    },
  }

  async function checkHealth(signal: AbortSignal): Promise<void> {
    const opened = await session(signal)
    if (exchange === '') return
    try {
      await beforeAbort(signal, opened.checkExchange(exchange))
    } catch (cause) {
      throw brokerUnavailable(`${where(url)}: ${describeError(cause, 300)}`, { cause })
    }
  }
}
