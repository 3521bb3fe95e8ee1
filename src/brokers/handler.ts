import { describeError, hasCode } from '../errors.ts'
import { type OptionsOf, instance, integer, object, resolveOptions } from '../options.ts'
import { createSharedAbort } from '../pause.ts'
import {
  type Message,
  type Publisher,
  type PublishResult,
  brokerUnavailable,
  publishFailed,
  publishTimeout,
} from '../publishing/publisher.ts'
import { type Abortion, whenAborted } from './abort.ts'
import type { Broker } from './broker.ts'
import { createLanes } from './lanes.ts'

/**
 * Handles one event in this process. What it returns is not looked at; that it returns means the event is done.
 * What it throws decides what happens: `undeliverable` or `rejectedBy` make a dead letter at once,
 * `brokerUnavailable` counts no attempt and pauses the destination, anything else is tried again later.
 * `signal` aborts when the relay gives the call up.
 */
export type Handle = (message: Message, options: { signal: AbortSignal }) => unknown

export const handlerOptions = object({
  handle: instance<Handle>('a function', (value) => typeof value === 'function').describe(
    'called with each event; may return a promise',
  ),
  concurrency: integer({ min: 1, max: 10_000 }).default(16).describe('events handled at once'),
})

/**
 * Delivers each event to a function of this process.
 *
 * @throws CONFIGURATION_INVALID
 */
export function handlerPublisher(
  handle: Handle,
  options: { name?: string; concurrency?: number } = {},
): Publisher {
  const { name = 'handler', ...rest } = options
  return createPublisher(name, resolveOptions(handlerOptions, { ...rest, handle }, { path: name }))
}

export const broker: Broker<typeof handlerOptions> = { options: handlerOptions, create: createPublisher }

function createPublisher(name: string, settings: OptionsOf<typeof handlerOptions>): Publisher {
  const { handle, concurrency } = settings
  const lanes = createLanes(concurrency)
  const closing = createSharedAbort()

  async function deliver(message: Message, call: Abortion, signal: AbortSignal): Promise<PublishResult> {
    const leave = await lanes.enter(call)
    if (leave === null) return { status: 'retry', error: gaveUp(name, 'began'), afterMs: 0 }
    try {
      const result = await Promise.race([callHandler(handle, message, signal), call.promise])
      return result ?? { status: 'retry', error: gaveUp(name, 'was done') }
    } finally {
      // Also when the handler hangs: its event is tried again, and must not take all lanes in the end.
      leave()
    }
  }

  return {
    name,
    capabilities: { ordering: 'per-call', deduplication: false, maxBatchSize: concurrency },
    async publish(messages, { signal, onPublished }) {
      if (closing.signal.aborted) throw brokerUnavailable(`${name} is closed`)
      const call = whenAborted(signal, closing.signal)
      const forHandlers = createSharedAbort()
      call.onAbort(() => forHandlers.abort())
      try {
        return await Promise.all(
          messages.map(async (message, index) => {
            const result = await deliver(message, call, forHandlers.signal)
            if (result.status === 'published') onPublished?.(index)
            return result
          }),
        )
      } finally {
        call.release()
      }
    },
    async close() {
      closing.abort()
    },
  }
}

async function callHandler(handle: Handle, message: Message, signal: AbortSignal): Promise<PublishResult> {
  try {
    await handle(message, { signal })
    return { status: 'published' }
  } catch (error) {
    if (hasCode(error, 'EVENT_UNDELIVERABLE') || hasCode(error, 'EVENT_REJECTED')) {
      return { status: 'reject', error }
    }
    if (hasCode(error, 'BROKER_UNAVAILABLE')) return { status: 'retry', error }
    return {
      status: 'retry',
      error: publishFailed(`the handler failed: ${describeError(error, 1000)}`, { cause: error }),
    }
  }
}

function gaveUp(name: string, what: string): Error {
  return publishTimeout(`the call was given up before ${name} ${what} with this event`)
}
