import type { AsyncMessage } from 'rabbitmq-client'
import type { HeaderPair } from '../../publishing/headers.ts'
import type { Delivery } from '../../publishing/source.ts'
import { contentTypeOf } from './raw-bodies.ts'

export function toDelivery(queue: string, message: AsyncMessage, lost: AbortSignal): Delivery {
  const { messageId, routingKey, redelivered, headers = {} } = message
  return {
    binding: 'amqp',
    body: message.body as Buffer,
    headers: Object.entries(headers as Record<string, unknown>).flatMap(toPair),
    contentType: contentTypeOf(message),
    topic: routingKey,
    key: null,
    // RabbitMQ has no name for a message but the sender's.
    origin: `rabbitmq:${queue}${messageId === undefined ? '' : `/${messageId}`}`,
    redelivered,
    lost,
  }
}

/** What the broker itself writes: about the way of the message, and not the same each time. */
const ofBroker = /^x-(death|(first|last)-death-.*|delivery-count|acquired-count)$/

function toPair([name, value]: [string, unknown]): HeaderPair[] {
  if (ofBroker.test(name)) return []
  if (typeof value === 'string') return [[name, value]]
  if (Buffer.isBuffer(value)) return [[name, value.toString('utf8')]]
  const isPlain = typeof value === 'number' || typeof value === 'bigint' || typeof value === 'boolean'
  return isPlain ? [[name, String(value)]] : []
}
