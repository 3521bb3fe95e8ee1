import type { Message, Publisher } from '../../../src/publishing/publisher.ts'
import type { Sender } from './sender.ts'

/** Sends through one of our publishers, as the relay calls it. */
export function publisherSender(publisher: Publisher, batches: readonly (readonly Message[])[]): Sender {
  return {
    async send(batch) {
      const results = await publisher.publish(batches[batch]!, { signal: AbortSignal.timeout(30_000) })
      for (const result of results) if (result.status !== 'published') throw result.error
    },
    close: () => publisher.close(),
  }
}
