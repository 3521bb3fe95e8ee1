import type { Message } from '../../../src/publishing/publisher.ts'
import { createEncoder } from '../../../src/publishing/format.ts'

/** An entry of a batch call, but for its id and the name of its body. */
export interface Entry {
  readonly body: string
  readonly attributes: Record<string, { DataType: string; StringValue: string }>
}

/** Most entries of one call, of SQS as of SNS. */
const mostEntries = 10

/** The records of all batches, made beforehand. */
export function entriesOf(batches: readonly (readonly Message[])[]): Entry[][] {
  const encoder = createEncoder({ binding: 'sqs' })
  return batches.map((batch) =>
    batch.map((message) => {
      const { body, headers } = encoder.encode(message)
      const attributes = headers.map(([name, StringValue]) => [name, { DataType: 'String', StringValue }])
      return { body, attributes: Object.fromEntries(attributes) as Entry['attributes'] }
    }),
  )
}

/** Sends a batch in as many calls at once as it needs. */
export async function inCalls(
  entries: readonly Entry[],
  send: (part: readonly Entry[]) => Promise<unknown>,
): Promise<void> {
  const calls: Promise<unknown>[] = []
  for (let start = 0; start < entries.length; start += mostEntries) {
    calls.push(send(entries.slice(start, start + mostEntries)))
  }
  await Promise.all(calls)
}
