import { drainArticle } from '../article-relay.ts'
import { drainGraphile } from './graphile.ts'
import type { Contestant, DrainJob, DrainResult, DrainTarget } from './job.ts'
import type { Parent } from './job.ts'
import { type Recorder, createRecorder } from './recorder.ts'
import { type StatementClock, startStatementClock } from './statement-clock.ts'
import { drainWaybill } from './waybill.ts'

/**
 * Drains twice: first other rows, so that what is measured is not the compiler at work, then the target. Each
 * contestant publishes to nowhere.
 */
export async function runDrain({ contestant, warmUp, target }: DrainJob, parent: Parent): Promise<void> {
  const clock = startStatementClock()
  await drain(contestant, warmUp, createRecorder(), clock)
  parent.warm()
  if ((await parent.command()) !== 'go') return
  clock.reset()
  const recorder = createRecorder()
  const cpu = process.cpuUsage()
  const settledAt = await drain(contestant, target, recorder, clock)
  const { user, system } = process.cpuUsage(cpu)
  parent.result({
    published: recorder.published,
    callsMs: recorder.lastAt - recorder.firstAt,
    settledMs: settledAt - recorder.firstAt,
    cpuMs: (user + system) / 1000,
    statements: clock.report(),
  } satisfies DrainResult)
}

/** Answers when the last event was settled. */
async function drain(
  contestant: Contestant,
  target: DrainTarget,
  recorder: Recorder,
  clock: StatementClock,
): Promise<number> {
  switch (contestant.kind) {
    case 'article':
      await drainArticle(target.url, async () => recorder.call(1))
      return performance.now()
    case 'waybill':
      await drainWaybill(contestant, target, recorder)
      return clock.lastEnd('waybill mark') ?? performance.now()
    case 'graphile':
      await drainGraphile(contestant, target, recorder)
      return performance.now()
  }
}
