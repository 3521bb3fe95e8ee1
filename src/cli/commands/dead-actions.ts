import type { DeadLetterReport, SkipReason } from '../../operations/dead-letters.ts'
import type { Connection } from '../../database/connection.ts'
import { type DeadLetterTarget, checkTarget } from '../../operations/dead-letter-targets.ts'
import type { Action, CommandContext } from '../context.ts'
import { deadLetterTarget } from '../dead-letter-filter.ts'
import { exitCodes } from '../exit-code.ts'
import { type ActionFlags, given } from '../flags.ts'
import type { Output } from '../output.ts'
import { interruption } from '../signals.ts'
import { plural } from '../text.ts'

/** Puts dead letters back to where they were. */
export function deadRetryCommand(
  flags: ActionFlags & { allowOlder?: boolean },
  ids: readonly string[],
): Action {
  const target = checkTarget(deadLetterTarget(flags, ids))
  const options = given({ reason: flags.reason, allowOlder: flags.allowOlder })
  return (context) =>
    act(context, target, 'retried', async (db, schema, how) => {
      const { retryDeadLetters } = await import('../../operations/dead-letters.ts')
      return retryDeadLetters(db, schema, { ...target, ...options, ...how })
    })
}

/** Gives dead letters up. */
export function deadDiscardCommand(flags: ActionFlags & { reason: string }, ids: readonly string[]): Action {
  const target = checkTarget(deadLetterTarget(flags, ids))
  return (context) =>
    act(context, target, 'discarded', async (db, schema, how) => {
      const { discardDeadLetters } = await import('../../operations/dead-letters.ts')
      return discardDeadLetters(db, schema, { ...target, reason: flags.reason, ...how })
    })
}

type Run = (
  db: Connection,
  schema: string,
  how: { signal: AbortSignal; onProgress: (report: DeadLetterReport) => void },
) => Promise<DeadLetterReport>

function act({ output, withDatabase }: CommandContext, target: DeadLetterTarget, verb: string, run: Run) {
  return withDatabase(async (db, { schema }) => {
    const stop = interruption()
    const progress = await output.progress(verb, () => countTargets(db, schema, target))
    try {
      const report = await run(db, schema, {
        signal: stop.signal,
        onProgress: ({ matched }) => progress.update(matched),
      })
      progress.stop()
      output.data(report)
      tell(output, verb, report)
      return succeeded(report) ? exitCodes.done : exitCodes.failed
    } finally {
      progress.stop()
      stop.release()
    }
  })
}

/** How many there are to do, for the bar; a filter would have to be run to know. */
async function countTargets(
  db: Connection,
  schema: string,
  target: DeadLetterTarget,
): Promise<number | null> {
  if (target.ids !== undefined) return target.ids.length
  if (target.filter !== undefined) return null
  const { takeSample } = await import('../../operations/sample.ts')
  return (await takeSample(db, schema)).counts.dead
}

/** What somebody else did meanwhile is no failure; everything else that was asked for and not done is. */
function succeeded({ complete, skipped }: DeadLetterReport): boolean {
  return complete && skipped.overtaken + skipped['not-found'] + skipped['not-dead'] === 0
}

const why: Readonly<Record<SkipReason, string>> = {
  overtaken: 'newer events of the aggregate are published already, --allow-older retries them all the same',
  'not-found': 'there is no such event',
  'not-dead': 'it is no dead letter',
  'changed-meanwhile': 'somebody else changed it meanwhile',
}

function tell(
  output: Output,
  verb: string,
  { changed, skipped, skippedEvents, complete }: DeadLetterReport,
): void {
  output.print(output.paint(changed > 0 ? 'green' : 'gray', `${verb} ${plural(changed, 'dead letter')}`))
  for (const [reason, count] of Object.entries(skipped) as [SkipReason, number][]) {
    if (count === 0) continue
    output.print(`left alone ${plural(count, 'event')}: ${why[reason]}`)
    const ids = skippedEvents.filter((event) => event.reason === reason).map(({ id }) => id)
    for (const id of ids.slice(0, 10)) output.print(`  ${id}`)
    if (count > 10) output.print(`  and ${count - 10} more`)
  }
  if (!complete) output.print(output.paint('yellow', 'stopped early: the same command goes on with the rest'))
}
