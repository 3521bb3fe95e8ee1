import type { ConsumerInfo, JetStreamManager } from '@nats-io/jetstream'
import { configurationInvalid } from '../../options.ts'
import { brokerUnavailable } from '../../publishing/publisher.ts'
import type { NatsSourceSettings } from '../nats-options.ts'

const consumerNotFound = 10_014
const streamNotFound = 10_059

/**
 * The durable consumer, which is made when it does not exist.
 *
 * @throws CONFIGURATION_INVALID when it is there and would lose messages; BROKER_UNAVAILABLE without its stream
 */
export async function durableConsumer(
  manager: JetStreamManager,
  settings: NatsSourceSettings,
): Promise<ConsumerInfo> {
  const { stream, consumer, subject, ackWaitMs, prefetch } = settings
  try {
    return checked(await manager.consumers.info(stream, consumer))
  } catch (error) {
    const { code } = error as { code?: unknown }
    if (code === streamNotFound) throw brokerUnavailable(`the stream ${stream} does not exist, create it`)
    if (code !== consumerNotFound) throw error
    return manager.consumers.add(stream, {
      durable_name: consumer,
      ack_policy: 'explicit',
      deliver_policy: 'all',
      ack_wait: ackWaitMs * 1_000_000,
      max_deliver: -1,
      // Of all processes together; what one of them has is bounded by its prefetch.
      max_ack_pending: Math.max(1000, prefetch),
      ...(subject === undefined ? {} : { filter_subject: subject }),
    })
  }
}

function checked(info: ConsumerInfo): ConsumerInfo {
  const { name, config } = info
  const problems = [
    config.ack_policy === 'explicit' ? '' : `ack_policy to be explicit, got ${config.ack_policy}`,
    config.deliver_subject === undefined ? '' : 'no deliver_subject: it must be a pull consumer',
    // It would stop delivering a message that was given back so many times.
    (config.max_deliver ?? -1) < 0 ? '' : `max_deliver to be -1, got ${config.max_deliver}`,
  ].filter((problem) => problem !== '')
  if (problems.length === 0) return info
  throw configurationInvalid(problems.map((problem) => `expected the consumer ${name} to have ${problem}`))
}
