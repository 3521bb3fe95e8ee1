import assert from 'node:assert/strict'
import { show } from '../wording.ts'
import type { PublisherBench, ReceivedMessage } from './publisher-bench.ts'

/** What has arrived. Fails at once, and not after the patience is over, when the bench answers something else. */
export async function receivedBy(bench: PublisherBench): Promise<readonly ReceivedMessage[]> {
  const received: unknown = await bench.received()
  if (!Array.isArray(received)) {
    throw new assert.AssertionError({
      message: `received() must answer with a list, got ${kindOf(received)}`,
    })
  }
  for (const [index, message] of received.entries()) {
    const problem = problemOf(message)
    if (problem === undefined) continue
    throw new assert.AssertionError({
      message: `received()[${index}] must be a ReceivedMessage { messageId, eventId, body, headers }: ${problem}`,
    })
  }
  return received as readonly ReceivedMessage[]
}

function problemOf(message: unknown): string | undefined {
  if (typeof message !== 'object' || message === null) return `it is ${kindOf(message)}`
  const fields = message as Partial<Record<keyof ReceivedMessage, unknown>>
  for (const name of ['messageId', 'eventId', 'body'] as const) {
    if (typeof fields[name] !== 'string') return `${name} must be text, got ${kindOf(fields[name])}`
  }
  const { headers } = fields
  if (typeof headers !== 'object' || headers === null || Array.isArray(headers))
    return `headers must be an object, got ${kindOf(headers)}`
  const [name, value] = Object.entries(headers).find(([, text]) => typeof text !== 'string') ?? []
  return name === undefined ? undefined : `headers[${show(name)}] must be text, got ${kindOf(value)}`
}

function kindOf(value: unknown): string {
  if (value === null || value === undefined) return String(value)
  if (Array.isArray(value)) return 'a list'
  if (Buffer.isBuffer(value)) return 'a Buffer'
  return typeof value
}
