import { setTimeout as sleep } from 'node:timers/promises'
import type { Message, PublishResult, Publisher } from '../../src/publishing/publisher.ts'
import { createRelay } from '../../src/relay/index.ts'
import type { Contestant, DrainTarget } from './job.ts'
import type { Recorder } from './recorder.ts'

const published: PublishResult = Object.freeze({ status: 'published' })

export async function drainWaybill(
  { options, publisherMs }: Extract<Contestant, { kind: 'waybill' }>,
  { url, rows }: DrainTarget,
  recorder: Recorder,
): Promise<void> {
  const relay = createRelay({
    databaseUrl: url,
    destinations: {
      nowhere: createPublisher('nowhere', publisherMs, (messages) => recorder.call(messages.length)),
    },
    ...options,
  })
  const { failed, dead } = await relay.drain()
  if (failed + dead > 0 || recorder.published !== rows) {
    throw new Error(
      `Waybill published ${recorder.published} of ${rows} events, ${failed} failed, ${dead} died`,
    )
  }
}

/** Takes everything, after a pause. */
export function createPublisher(
  name: string,
  pauseMs: number,
  onCall: (messages: readonly Message[]) => void,
  result: (message: Message) => PublishResult = () => published,
  maxBatchSize?: number,
): Publisher {
  return {
    name,
    capabilities: {
      ordering: 'batch',
      deduplication: false,
      ...(maxBatchSize === undefined ? {} : { maxBatchSize }),
    },
    async publish(messages) {
      onCall(messages)
      if (pauseMs > 0) await sleep(pauseMs)
      return messages.map(result)
    },
    async close() {},
  }
}
