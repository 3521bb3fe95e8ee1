import type {
  ConsumerDeadLetter,
  ConsumerDeadLetterAction,
  ConsumerDeadLetterReport,
} from '../../operations/consumer-dead-letters.ts'
import type { Connection } from '../../database/connection.ts'
import { usageInvalid } from '../../input.ts'
import type { Action } from '../context.ts'
import { seconds } from '../event-columns.ts'
import { exitCodes } from '../exit-code.ts'
import { given, integerFlag } from '../flags.ts'
import type { Column, Output } from '../output.ts'
import { interruption } from '../signals.ts'
import { plural } from '../text.ts'

const columns: readonly Column<ConsumerDeadLetter>[] = [
  { title: 'consumer', text: ({ consumer }) => consumer, limit: 40 },
  { title: 'event', text: ({ eventId }) => eventId },
  { title: 'type', text: ({ type }) => type ?? '', limit: 40 },
  { title: 'aggregate', text: ({ aggregate }) => aggregate?.join(' ') ?? '', limit: 40 },
  { title: 'attempts', align: 'right', text: ({ attempts }) => String(attempts) },
  { title: 'died', text: ({ diedAt }) => seconds(diedAt) },
  { title: 'state', text: ({ retrying }) => (retrying ? 'retrying' : 'dead') },
  { title: 'reason', text: ({ reason }) => reason ?? '', limit: 100 },
]

export interface ConsumerListFlags {
  consumer?: string
  limit?: string
  after?: string
}

export interface ConsumerActionFlags {
  consumer: string
  all?: boolean
  allowOlder?: boolean
  reason?: string
}

/** One page of the dead letters of consumers. */
export function consumerDeadListCommand(flags: ConsumerListFlags): Action {
  const limit = integerFlag('--limit', flags.limit, { min: 1, max: 1000 })
  const options = given({ consumer: flags.consumer, limit, after: flags.after })
  return ({ output, withDatabase }) =>
    withDatabase(async (db, { schema }) => {
      const { listConsumerDeadLetters } = await import('../../operations/consumer-dead-letters.ts')
      const page = await listConsumerDeadLetters(db, schema, options)
      output.data(page)
      if (page.items.length > 0) output.table(page.items, columns)
      else output.note('there is no dead letter of a consumer')
      if (page.next !== null) output.note(`there is more: the same command with --after ${page.next}`)
    })
}

/** Puts dead letters of a consumer back. */
export function consumerDeadRetryCommand(flags: ConsumerActionFlags, ids: readonly string[]): Action {
  return act(flags, ids, 'put back', async (db, schema, action) => {
    const { retryConsumerDeadLetters } = await import('../../operations/consumer-dead-letters.ts')
    return retryConsumerDeadLetters(db, schema, action)
  })
}

/** Gives dead letters of a consumer up. */
export function consumerDeadDiscardCommand(
  flags: ConsumerActionFlags & { reason: string },
  ids: readonly string[],
): Action {
  return act(flags, ids, 'discarded', async (db, schema, action) => {
    const { discardConsumerDeadLetters } = await import('../../operations/consumer-dead-letters.ts')
    return discardConsumerDeadLetters(db, schema, { ...action, reason: flags.reason })
  })
}

type Run = (
  db: Connection,
  schema: string,
  action: ConsumerDeadLetterAction,
) => Promise<ConsumerDeadLetterReport>

function act(flags: ConsumerActionFlags, ids: readonly string[], verb: string, run: Run): Action {
  if (flags.all === true ? ids.length > 0 : ids.length === 0) {
    throw usageInvalid('expected ids of events, or --all for all dead letters of the consumer')
  }
  const { consumer } = flags
  const options = given({ allowOlder: flags.allowOlder, reason: flags.reason })
  return ({ output, withDatabase }) =>
    withDatabase(async (db, { schema }) => {
      const stop = interruption()
      const progress = await output.progress(verb, async () => (ids.length > 0 ? ids.length : null))
      try {
        const report = await run(db, schema, {
          ...{ consumer, ...options, signal: stop.signal },
          ...(ids.length > 0 ? { ids } : {}),
          onProgress: (changed) => progress.update(changed),
        })
        progress.stop()
        output.data(report)
        tell(output, verb, report)
        const { complete, overtaken, notDead } = report
        return complete && overtaken.length + notDead.length === 0 ? exitCodes.done : exitCodes.failed
      } finally {
        progress.stop()
        stop.release()
      }
    })
}

function tell(output: Output, verb: string, report: ConsumerDeadLetterReport): void {
  const { changed, overtaken, notDead, complete } = report
  output.print(output.paint(changed > 0 ? 'green' : 'gray', `${verb} ${plural(changed, 'dead letter')}`))
  leftAlone(
    output,
    overtaken,
    'later events of the aggregate are handled already, --allow-older takes them all the same',
  )
  leftAlone(output, notDead, 'no dead letter of this consumer')
  if (!complete) output.print(output.paint('yellow', 'stopped early: the same command goes on with the rest'))
}

function leftAlone(output: Output, ids: readonly string[], why: string): void {
  if (ids.length === 0) return
  output.print(`left alone ${plural(ids.length, 'event')}: ${why}`)
  for (const id of ids.slice(0, 10)) output.print(`  ${id}`)
  if (ids.length > 10) output.print(`  and ${ids.length - 10} more`)
}
