import { loadGraphile } from '../graphile-worker.ts'
import type { Contestant, DrainTarget } from './job.ts'
import type { Recorder } from './recorder.ts'

/**
 * graphile-worker with the batching of its own page on performance: a local queue, and completions written in
 * batches. The jobs have no queue name, so it keeps no order, which is the fastest that it has.
 */
export async function drainGraphile(
  { concurrentJobs, localQueueSize }: Extract<Contestant, { kind: 'graphile' }>,
  { url, rows }: DrainTarget,
  recorder: Recorder,
): Promise<void> {
  const graphile = loadGraphile()
  let allDone!: () => void
  const done = new Promise<void>((resolve) => (allDone = resolve))
  const runner = await graphile.run({
    preset: {
      worker: {
        connectionString: url,
        concurrentJobs,
        maxPoolSize: concurrentJobs + 1,
        localQueue: { size: localQueueSize },
        completeJobBatchDelay: 0,
        failJobBatchDelay: 0,
        logger: new graphile.Logger(() => () => undefined),
      },
    },
    noHandleSignals: true,
    parsedCronItems: [],
    taskList: {
      event: async () => {
        recorder.call(1)
        if (recorder.published === rows) allDone()
      },
    },
  })
  await Promise.race([done, runner.promise])
  await runner.stop()
}
