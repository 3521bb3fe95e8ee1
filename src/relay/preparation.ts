import { describeError } from '../errors.ts'
import { createMessage, routableEvent } from '../publishing/message.ts'
import { undeliverable } from '../publishing/publisher.ts'
import type { Route } from '../publishing/routing.ts'
import type { Prepared } from './aggregate.ts'
import type { Destination } from './destination.ts'
import type { ReadEvent, SourceEvent } from './source.ts'

/** UTF-8 takes at most three bytes for each UTF-16 unit: below a third of the limit nothing need be counted. */
const maxBytesPerUnit = 3

export interface Preparation {
  /**
   * Finds the destination of an event and makes its message. Whatever is wrong with one row (headers, topic, size, a
   * route that throws) comes out as the reason for which this one event cannot be delivered.
   */
  prepare: (event: SourceEvent) => Prepared
  /** Finds only the destination; null when there is none. */
  destinationOf: (event: ReadEvent) => string | null
}

export function createPreparation(destinations: ReadonlyMap<string, Destination>, route: Route): Preparation {
  function prepared(event: SourceEvent): Prepared {
    const routable = routableEvent(event)
    const target = route(routable)
    if (target === null) {
      throw undeliverable(
        `no route matches event type ${JSON.stringify(event.eventType)} of aggregate type ` +
          `${JSON.stringify(event.aggregateType)}, add one and retry the dead letter`,
      )
    }
    const destination = destinations.get(target.to)
    if (destination === undefined) {
      throw undeliverable(`the route names the unknown destination ${JSON.stringify(target.to)}`)
    }
    checkSize(event.body, destination)
    return {
      destination: target.to,
      message: createMessage(event, target, destination.format, routable),
      bytes: event.body.length,
    }
  }

  return {
    prepare(event) {
      try {
        return prepared(event)
      } catch (error) {
        return { destination: null, error: error instanceof Error ? error : new Error(describeError(error)) }
      }
    },
    destinationOf(event) {
      try {
        return route(routableEvent(event))?.to ?? null
      } catch {
        return null
      }
    },
  }
}

function checkSize(body: string, { name, publisher }: Destination): void {
  const { maxMessageBytes = Infinity } = publisher.capabilities
  if (body.length * maxBytesPerUnit <= maxMessageBytes) return
  const bytes = Buffer.byteLength(body)
  if (bytes > maxMessageBytes) {
    throw undeliverable(
      `the payload has ${bytes} bytes, destination ${JSON.stringify(name)} takes at most ${maxMessageBytes}`,
    )
  }
}
