import { describeError } from '../../errors.ts'
import {
  type PublishResult,
  brokerUnavailable,
  publishFailed,
  publishTimeout,
  rejectedBy,
} from '../../publishing/publisher.ts'
import type { Enveloped } from './envelope.ts'
import type { Delivery } from './session.ts'

/**
 * - `exchange`: there is no such exchange, or nobody may publish to it: no message can get through;
 * - `topic`: this user may not publish with this routing key;
 * - `refused`: the broker does not take this message (too large for it);
 * - `forced`: an operator closes the connection, the broker shuts down;
 * - `nack`: the broker could not keep this message (a full queue);
 * - `lost`: anything else that ended the connection or the channel.
 */
export type AmqpFailure = 'exchange' | 'topic' | 'refused' | 'forced' | 'nack' | 'lost'

export function failureOf(error: Error): AmqpFailure {
  const code = (error as { code?: unknown }).code
  switch (code) {
    case 'NACK':
      return 'nack'
    case 'NOT_FOUND':
      return 'exchange'
    case 'ACCESS_REFUSED':
      return error.message.includes('access to topic') ? 'topic' : 'exchange'
    case 'PRECONDITION_FAILED':
    case 'CONTENT_TOO_LARGE':
      return 'refused'
    case 'CONNECTION_FORCED':
      return 'forced'
    default:
      return 'lost'
  }
}

/** True when the channel was closed because of one message, so that its neighbours deserve another try. */
export function closedByMessage(delivery: Delivery): boolean {
  return delivery instanceof Error && (failureOf(delivery) === 'topic' || failureOf(delivery) === 'refused')
}

/** True when the channel or the connection ended before the broker said anything about this message. */
export function wasInterrupted(delivery: Delivery): boolean {
  return delivery instanceof Error && failureOf(delivery) !== 'nack'
}

/** The result for what became of one message. */
export function toResult(
  { envelope }: Enveloped,
  delivery: Delivery,
  { name, blocked }: { name: string; blocked: string | undefined },
): PublishResult {
  const { exchange = '', routingKey } = envelope
  if (delivery === 'confirmed') {
    return { status: 'published', receipt: `rabbitmq:${exchange}/${routingKey}` }
  }
  if (delivery === undefined) return { status: 'retry', error: unanswered(name, blocked) }
  if (!(delivery instanceof Error)) {
    // Not a dead letter: somebody forgot a binding and will make it, and later events must not pass.
    const where =
      exchange === '' ? 'no queue has this name' : `exchange ${show(exchange)} has no queue bound for it`
    return {
      status: 'retry',
      error: publishFailed(`routing key ${show(routingKey)}: ${where} (${delivery.replyText})`),
    }
  }
  return { status: failureOf(delivery) === 'refused' ? 'reject' : 'retry', error: toError(name, delivery) }
}

function toError(name: string, delivery: Error): Error {
  const text = `${name}: ${describeError(delivery, 300)}`
  const cause = { cause: delivery }
  const failure = failureOf(delivery)
  if (failure === 'nack' || failure === 'topic') return publishFailed(text, cause)
  if (failure === 'exchange' || failure === 'forced') return brokerUnavailable(text, cause)
  if (failure === 'lost') return publishTimeout(text, cause)
  return rejectedBy(String((delivery as { code?: unknown }).code), text, cause)
}

function unanswered(name: string, blocked: string | undefined): Error {
  return blocked === undefined
    ? publishTimeout(`${name} did not confirm in time`)
    : brokerUnavailable(`${name} takes no messages now (${blocked})`)
}

function show(text: string): string {
  return JSON.stringify(text.slice(0, 80))
}
