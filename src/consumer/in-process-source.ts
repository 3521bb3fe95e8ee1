import { createEncoder } from '../publishing/format.ts'
import { type Message, brokerUnavailable } from '../publishing/publisher.ts'
import type { Delivery, Receiver, Source } from '../publishing/source.ts'

/** Takes events from a relay in the same process, or from code of your own. */
export interface InProcessSource extends Source {
  /**
   * For a `handler` destination: `handlerPublisher(source.handle)`. Resolves when the event is committed, or recorded as
   * a dead letter of the consumer.
   *
   * @throws BROKER_UNAVAILABLE while the consumer is not at work; PUBLISH_FAILED when its handler failed
   */
  readonly handle: (message: Message) => Promise<void>
  /** For messages of your own, in the terms of any broker. Rejects as `handle` does. */
  readonly deliver: (delivery: Delivery) => Promise<void>
}

/**
 * A source without a broker. The relay brings a failed event again, so the consumer's `maxAttempts` should not be above
 * the relay's: then the dead letter is the consumer's.
 */
export function inProcessSource({ name = 'in-process' }: { name?: string } = {}): InProcessSource {
  const encoder = createEncoder({ binding: 'plain' })
  const underWay = new Set<Promise<unknown>>()
  let receiver: Receiver | undefined

  async function deliver(delivery: Delivery): Promise<void> {
    if (receiver === undefined) throw brokerUnavailable(`the consumer of ${name} is not at work`)
    const answering = receiver(delivery)
    underWay.add(answering)
    const answer = await answering
    underWay.delete(answering)
    if (answer.status === 'again') throw answer.error
  }

  return {
    name,
    subscription: null,
    capabilities: { ordering: 'aggregate', holding: false },
    deliver,
    handle: (message) => deliver(toDelivery(message, encoder.encode(message))),
    async start(receive) {
      receiver = receive
    },
    async stop() {
      receiver = undefined
      await Promise.all(underWay)
    },
  }
}

function toDelivery(
  { messageId, topic, aggregateId }: Message,
  { body, headers, contentType }: ReturnType<ReturnType<typeof createEncoder>['encode']>,
): Delivery {
  return {
    ...{ binding: 'plain', body, headers, contentType, topic, key: aggregateId },
    ...{ origin: `in-process:${messageId}`, redelivered: false },
  }
}
