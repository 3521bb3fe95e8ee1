import { describeError } from '../errors.ts'
import { type OptionsOf, instance, object, resolveOptions } from '../options.ts'
import { createSharedAbort } from '../pause.ts'
import { type Encoder, createEncoder } from '../publishing/format.ts'
import {
  type Message,
  type Publisher,
  type PublishResult,
  brokerUnavailable,
  publishTimeout,
} from '../publishing/publisher.ts'
import { whenAborted } from './abort.ts'
import type { Broker } from './broker.ts'
import { cloudEventsSource } from './common-options.ts'

/** What is needed of a writable stream of Node. */
interface Output {
  readonly writable: boolean
  write(text: string, done: (error?: Error | null) => void): boolean
  on(event: 'error', listener: (error: Error) => void): unknown
  off(event: 'error', listener: (error: Error) => void): unknown
}

export const stdoutOptions = object({
  stream: instance<Output>('a writable stream', (value) => typeof (value as Output)?.write === 'function')
    .optional()
    .describe('another stream than the standard output, in code'),
  cloudEventsSource,
})

/**
 * Writes each event as one line of JSON: `topic`, `key`, `id`, `headers`, `body`, the body being the payload as
 * PostgreSQL wrote it. An event is published when the stream has taken its line.
 *
 * @throws CONFIGURATION_INVALID
 */
export function stdoutPublisher(
  options: { name?: string; stream?: Output; cloudEventsSource?: string } = {},
): Publisher {
  const { name = 'stdout', ...rest } = options
  return createPublisher(name, resolveOptions(stdoutOptions, rest, { path: name }))
}

export const broker: Broker<typeof stdoutOptions> = { options: stdoutOptions, create: createPublisher }

function createPublisher(name: string, settings: OptionsOf<typeof stdoutOptions>): Publisher {
  const { stream = process.stdout, cloudEventsSource } = settings
  const encoder = createEncoder({ binding: 'plain', cloudEventsSource })
  const closing = createSharedAbort()
  let failure: Error | undefined
  // Without a listener a reader that goes away (EPIPE) would end the process.
  const onError = (error: Error) => (failure = error)
  stream.on('error', onError)

  function unavailable(): Error {
    return brokerUnavailable(`${name} takes no output: ${describeError(failure ?? 'it is closed', 300)}`, {
      cause: failure,
    })
  }

  return {
    name,
    capabilities: { ordering: 'batch', deduplication: false },
    observe: (observer) => encoder.observe(observer),
    async publish(messages, { signal }) {
      if (closing.signal.aborted || failure !== undefined || !stream.writable) throw unavailable()
      const lines = messages.map((message) => line(message, encoder)).join('')
      const outcome = await write(stream, lines, [signal, closing.signal])
      if (outcome instanceof Error) throw brokerUnavailable(`${name}: ${outcome.message}`, { cause: outcome })
      const result: PublishResult =
        outcome === 'written'
          ? { status: 'published' }
          : { status: 'retry', error: publishTimeout(`${name} did not take the line in time`) }
      return messages.map(() => result)
    },
    async checkHealth() {
      if (failure !== undefined || !stream.writable) throw unavailable()
    },
    async close() {
      closing.abort()
      // One turn later, for an error of the last line that is still on its way.
      await new Promise((resolve) => setImmediate(resolve))
      stream.off('error', onError)
    },
  }
}

function line(message: Message, encoder: Encoder): string {
  const { body, headers } = encoder.encode(message)
  const { topic, aggregateId: key, messageId: id } = message
  const start = JSON.stringify({ topic, key, id, headers: Object.fromEntries(headers) })
  return `${start.slice(0, -1)},"body":${body}}\n`
}

/** All lines in one write, so that none of them can be lost in the middle. */
async function write(
  stream: Output,
  lines: string,
  signals: readonly AbortSignal[],
): Promise<'written' | Error | undefined> {
  const aborted = whenAborted(...signals)
  const written = new Promise<'written' | Error>((resolve) => {
    stream.write(lines, (error) => resolve(error ?? 'written'))
  })
  try {
    return await Promise.race([written, aborted.promise])
  } finally {
    aborted.release()
  }
}
