import type { Action } from '../context.ts'
import { exitCodes } from '../exit-code.ts'
import { interruption } from '../signals.ts'
import { plural } from '../text.ts'

/** Retention, once and now. */
export function pruneCommand({ dryRun = false }: { dryRun?: boolean }): Action {
  return ({ output, withDatabase }) =>
    withDatabase(async (db, { schema, retention }) => {
      const { prune } = await import('../../operations/prune.ts')
      const stop = interruption()
      const progress = await output.progress(dryRun ? 'counted' : 'removed', async () => null)
      try {
        const report = await prune(db, schema, {
          ...retention,
          dryRun,
          signal: stop.signal,
          onProgress: ({ deleted, prunable }) => progress.update(dryRun ? prunable : deleted),
        })
        progress.stop()
        output.data({ ...report, dryRun })
        const { deleted, prunable, before, complete } = report
        const limit = `published before ${before}`
        output.print(
          dryRun
            ? `would remove ${plural(prunable, 'event')} ${limit}; nothing was changed`
            : output.paint(deleted > 0 ? 'green' : 'gray', `removed ${plural(deleted, 'event')} ${limit}`),
        )
        if (!complete)
          output.print(output.paint('yellow', 'stopped early: the same command goes on with the rest'))
        return complete ? exitCodes.done : exitCodes.failed
      } finally {
        progress.stop()
        stop.release()
      }
    })
}
