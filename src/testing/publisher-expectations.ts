import assert from 'node:assert/strict'
import { setMaxListeners } from 'node:events'
import { hasCode } from '../errors.ts'
import type { Message, Publisher, PublishResult } from '../publishing/publisher.ts'
import type { PublisherBench, ReceivedMessage } from './publisher-bench.ts'
import { receivedBy } from './received.ts'
import { testMessage } from './test-message.ts'

export async function withPublisher(
  bench: PublisherBench,
  use: (publisher: Publisher) => Promise<void>,
): Promise<void> {
  const publisher = await bench.create()
  try {
    await use(publisher)
  } finally {
    await publisher.close()
  }
}

/** In calls that the publisher's limits allow, as the relay makes them. */
export async function publish(publisher: Publisher, messages: readonly Message[]): Promise<PublishResult[]> {
  const { maxBatchSize = messages.length } = publisher.capabilities
  const results: PublishResult[] = []
  for (let at = 0; at < messages.length; at += maxBatchSize) {
    const part = messages.slice(at, at + maxBatchSize)
    const signal = AbortSignal.timeout(20_000)
    // As the relay does: a publisher may listen once for each message.
    setMaxListeners(0, signal)
    const answers = await publisher.publish(part, { signal })
    assert.equal(answers.length, part.length, 'one result for each message')
    results.push(...answers)
  }
  return results
}

/** A rejected call as results: none of the messages. */
export async function settled(call: Promise<readonly PublishResult[]>): Promise<readonly PublishResult[]> {
  try {
    return await call
  } catch (error) {
    return [{ status: 'retry', error: error as Error }]
  }
}

export function expectAllPublished(results: readonly PublishResult[]): void {
  for (const result of results) {
    if (result.status !== 'published')
      throw new assert.AssertionError({ message: `not published: ${result.error}` })
  }
}

export async function expectOneRefused(
  bench: PublisherBench,
  publisher: Publisher,
  bad: Message,
): Promise<void> {
  const messages = Array.from({ length: 20 }, (_, index) => (index === 7 ? bad : testMessage()))
  const results = await publish(publisher, messages)
  assert.equal(results[7]?.status, 'reject')
  const good = messages.filter((message) => message !== bad)
  expectAllPublished(results.filter((_, index) => index !== 7))
  await expectArrived(bench, good)
  assert.equal((await receivedBy(bench)).filter(({ messageId }) => messageId === bad.messageId).length, 0)
}

/** Whatever was called published has arrived; what else arrived is a duplicate at worst. */
export async function expectOnlyTrueClaims(
  bench: PublisherBench,
  messages: readonly Message[],
  results: readonly PublishResult[],
): Promise<void> {
  await expectArrived(
    bench,
    messages.filter((_, index) => results[index]?.status === 'published'),
  )
}

export async function expectUnavailable(publisher: Publisher): Promise<void> {
  const results = await settled(publish(publisher, [testMessage(), testMessage()]))
  for (const result of results) {
    assert.equal(result.status, 'retry')
    assert.ok(result.status === 'retry' && hasCode(result.error, 'BROKER_UNAVAILABLE'), 'expected an outage')
  }
}

/** The same publisher gets through again, at the latest after a few calls. */
export async function expectWorksAgain(bench: PublisherBench, publisher: Publisher): Promise<void> {
  const message = testMessage()
  await until(bench, 'the publisher gets through again', async () => {
    const [result] = await settled(publish(publisher, [message]))
    return result?.status === 'published'
  })
  await expectArrived(bench, [message])
}

export async function expectArrived(bench: PublisherBench, messages: readonly Message[]): Promise<void> {
  for (const { messageId } of messages) await arrivals(bench, messageId)
}

/** The arrivals of one message, at least one. */
export async function arrivals(bench: PublisherBench, messageId: string): Promise<ReceivedMessage[]> {
  let found: ReceivedMessage[] = []
  await until(bench, `message ${messageId} arrives`, async () => {
    found = (await receivedBy(bench)).filter((received) => received.messageId === messageId)
    return found.length > 0
  })
  return found
}

async function until(bench: PublisherBench, what: string, holds: () => Promise<boolean>): Promise<void> {
  const deadline = performance.now() + (bench.patienceMs ?? 20_000)
  while (!(await holds())) {
    if (performance.now() > deadline) throw new assert.AssertionError({ message: `waited in vain: ${what}` })
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
}
