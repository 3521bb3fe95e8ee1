import { publishFailed } from '../../src/publishing/publisher.ts'
import type { Message, PublishResult, Publisher } from '../../src/publishing/publisher.ts'
import { createRelay } from '../../src/relay/index.ts'
import { type RelayJob, type RelayReport, nowMs } from './job.ts'
import type { Parent } from './job.ts'
import { startStatementClock } from './statement-clock.ts'
import { createPublisher } from './waybill.ts'

const rssEveryMs = 50
const published: PublishResult = Object.freeze({ status: 'published' })

/** A relay as it runs in production, beside something else that is measured. */
export async function runRelay(job: RelayJob, parent: Parent): Promise<void> {
  const clock = startStatementClock()
  let count = 0
  let calls: RelayReport['calls'] = []
  let peakRssMb = 0
  const sampleRss = () => void (peakRssMb = Math.max(peakRssMb, process.memoryUsage.rss() / 2 ** 20))
  const sampling = setInterval(sampleRss, rssEveryMs)

  function onCall(messages: readonly Message[]): void {
    const at = nowMs()
    count += messages.length
    if (job.record === null) return
    for (const { aggregateType, eventId } of messages) {
      if (aggregateType === job.record) calls.push([eventId, at])
    }
  }
  function result({ aggregateType }: Message): PublishResult {
    if (aggregateType !== job.refuse) return published
    return { status: 'retry', error: publishFailed('refused by the benchmark') }
  }

  const destinations: Record<string, Publisher> = {
    nowhere: createPublisher('nowhere', job.publisherMs, onCall, result),
  }
  if (job.slow !== null) {
    const { publisherMs, batchSize } = job.slow
    destinations['slow'] = createPublisher('slow', publisherMs, onCall, result, batchSize)
  }
  const relay = createRelay({
    databaseUrl: job.url,
    wakeup: job.wakeup,
    // What is refused stays refused for as long as the measurement lasts.
    maxAttempts: 1000,
    destinations,
    routes: [...(job.slow === null ? [] : [{ aggregateType: 'slow', to: 'slow' }]), { to: 'nowhere' }],
  })
  await relay.start()
  parent.warm()
  while ((await parent.command()) === 'report') {
    sampleRss()
    parent.result({ published: count, calls, statements: clock.report(), peakRssMb } satisfies RelayReport)
    clock.reset()
    calls = []
    count = 0
  }
  clearInterval(sampling)
  await relay.stop({ graceMs: 1000 })
}
