import type { Release } from '../../operations/release-parked.ts'
import { checkText } from '../../input.ts'
import type { Action } from '../context.ts'
import { given } from '../flags.ts'

export interface ConsumerReleaseFlags {
  consumer: string
  projection?: string
  reason: string
}

/** Lets a projection go on without revisions that will never come. */
export function consumerReleaseCommand(words: readonly string[], flags: ConsumerReleaseFlags): Action {
  const aggregate = [checkText('aggregate type', words[0]), checkText('aggregate id', words[1])] as const
  const { consumer, reason } = flags
  const options = { consumer, aggregate, reason, ...given({ projection: flags.projection }) }
  return ({ output, withDatabase }) =>
    withDatabase(async (db, { schema }) => {
      const { releaseParked } = await import('../../operations/release-parked.ts')
      const released = await releaseParked(db, schema, options)
      output.data(released)
      output.print(
        `${released.projection} goes on without ${skipped(released)} of ${aggregate.join(' ')}: a process of ${consumer} applies revision ${released.next}`,
      )
    })
}

function skipped({ skippedFrom, skippedTo, next }: Release): string {
  if (skippedFrom === null) return `what came before revision ${next}`
  return skippedFrom === skippedTo ? `revision ${skippedTo}` : `revisions ${skippedFrom} to ${skippedTo}`
}
