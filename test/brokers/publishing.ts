import { afterEach, expect } from 'vitest'
import type { Message, Publisher, PublishResult } from '../../src/publishing/publisher.ts'
import { testMessage } from '../../src/testing/test-message.ts'

const publishers: Publisher[] = []
afterEach(async () => {
  await Promise.all(publishers.splice(0).map((publisher) => publisher.close()))
})

/** Closes the publisher after the test. */
export function closeLater(publisher: Publisher): Publisher {
  publishers.push(publisher)
  return publisher
}

export const publish = (publisher: Publisher, messages: readonly Message[], ms = 10_000) =>
  publisher.publish(messages, { signal: AbortSignal.timeout(ms) })

export async function publishOne(
  publisher: Publisher,
  message = testMessage(),
  ms?: number,
): Promise<PublishResult> {
  const [result] = await publish(publisher, [message], ms)
  return result!
}

/** What a promise was rejected with. */
export const failure = (promise: Promise<unknown>): Promise<Error> =>
  promise.then(
    () => expect.unreachable('expected a rejection'),
    (error: Error) => error,
  )
