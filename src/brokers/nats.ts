import { describeError } from '../errors.ts'
import { resolveOptions } from '../options.ts'
import { createEncoder } from '../publishing/format.ts'
import {
  type Message,
  type Publisher,
  type PublishCall,
  type PublishResult,
  unprepared,
} from '../publishing/publisher.ts'
import { whenAborted } from './abort.ts'
import type { Broker } from './broker.ts'
import { type NatsOptions, type NatsSettings, natsOptions } from './nats-options.ts'
import { hostAndPort } from './nats/connect-options.ts'
import { type NatsLink, openNats } from './nats/connection.ts'
import { type NatsMessage, toNatsMessage } from './nats/envelope.ts'
import { loadNats } from './nats/library.ts'
import { natsResult } from './nats/outcomes.ts'
import { createSessions } from './sessions.ts'

export type { NatsOptions, NatsSourceOptions } from './nats-options.ts'
export { natsSource } from './nats-source.ts'

/**
 * Publishes to streams of NATS JetStream, each event confirmed: subjects, headers and answers as
 * `docs/brokers/nats.md` says. Needs the packages `@nats-io/transport-node` and `@nats-io/jetstream`.
 *
 * @throws CONFIGURATION_INVALID, DEPENDENCY_MISSING
 */
export async function natsPublisher(options: NatsOptions & { name?: string }): Promise<Publisher> {
  const { name = 'nats', ...rest } = options
  return createPublisher(name, resolveOptions(natsOptions, rest, { path: name }))
}

export const broker: Broker<typeof natsOptions> = { options: natsOptions, create: createPublisher }

async function createPublisher(name: string, settings: NatsSettings): Promise<Publisher> {
  const library = await loadNats()
  const encoder = createEncoder({ binding: 'nats', cloudEventsSource: settings.cloudEventsSource })
  const where = `NATS at ${[settings.url].flat().map(hostAndPort).join(', ')}`
  const sessions = createSessions({ name, where }, () => openNats(library, name, settings))

  function prepare(message: Message, maxPayload: number): NatsMessage | PublishResult {
    try {
      const rules = { createHeaders: library.headers, maxPayload, stream: settings.stream }
      return toNatsMessage(message, encoder, rules)
    } catch (error) {
      return unprepared(error)
    }
  }

  async function publishOn(
    connection: NatsLink,
    messages: readonly Message[],
    { signal, onPublished }: PublishCall,
  ): Promise<{ results: PublishResult[]; answered: boolean }> {
    const results: (PublishResult | undefined)[] = messages.map(() => undefined)
    const call = whenAborted(signal)
    const deliveries = messages.map(async (message, index) => {
      const prepared = prepare(message, connection.maxPayload)
      const result =
        'subject' in prepared
          ? natsResult(name, prepared.subject, await answerTo(connection, prepared))
          : prepared
      results[index] = result
      if (result.status === 'published') onPublished?.(index, result.receipt)
    })
    try {
      await Promise.race([Promise.all(deliveries), call.promise])
    } finally {
      call.release()
    }
    // A copy: an answer that comes later must not change what was said.
    const known = messages.map(({ topic }, index) => results[index] ?? natsResult(name, topic, undefined))
    return { results: known, answered: !results.includes(undefined) }
  }

  return {
    name,
    get capabilities() {
      const maxPayload = sessions.last?.maxPayload ?? Infinity
      return {
        ordering: 'per-call' as const,
        deduplication: true,
        ...(maxPayload === Infinity ? {} : { maxMessageBytes: maxPayload }),
      }
    },
    observe: (observer) => encoder.observe(observer),
    connect: sessions.checkHealth,
    async publish(messages, call) {
      const session = await sessions.enter(call.signal)
      let usable = false
      try {
        const { results, answered } = await publishOn(session.connection, messages, call)
        usable = answered
        return await sessions.explain(session.connection, results, call.signal)
      } finally {
        session.leave({ usable })
      }
    },
    checkHealth: sessions.checkHealth,
    close: sessions.close,
  }
}

async function answerTo(connection: NatsLink, message: NatsMessage) {
  try {
    return await connection.publish(message)
  } catch (error) {
    return error instanceof Error ? error : new Error(describeError(error, 300))
  }
}
