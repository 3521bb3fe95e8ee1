import type { Action } from '../context.ts'
import type { Release } from '../../operations/release-parked.ts'
import type { Decision } from '../../publications/decisions.ts'
import { seconds } from '../event-columns.ts'
import { given, integerFlag } from '../flags.ts'
import type { Column } from '../output.ts'
import { readAggregate } from '../aggregate-option.ts'

const columns: readonly Column<Decision>[] = [
  { title: 'decided', text: ({ decidedAt }) => seconds(decidedAt) },
  { title: 'action', text: ({ action }) => action },
  { title: 'by', text: ({ decidedBy }) => decidedBy, limit: 20 },
  { title: 'what', text: whatOf, limit: 80 },
  { title: 'reason', text: ({ reason }) => reason, limit: 100 },
]

/** Who decided what, when and why; the newest first. */
export function decisionsCommand(flags: { aggregate?: string; limit: string }): Action {
  const aggregate = readAggregate(flags.aggregate)
  const limit = integerFlag('--limit', flags.limit, { min: 1, max: 1000 })
  return ({ output, withDatabase }) =>
    withDatabase(async (db, { schema }) => {
      const { listDecisions } = await import('../../publications/decisions.ts')
      const items = await listDecisions({ db, schema }, given({ limit, aggregate }))
      output.data({ items })
      if (items.length > 0) output.table(items, columns)
      else output.note('nothing was decided')
    })
}

/** What a release skips is half of what was decided. */
function whatOf({ action, what, details }: Decision): string {
  if (action !== 'released') return what ?? ''
  const { skippedFrom, skippedTo } = details as Pick<Release, 'skippedFrom' | 'skippedTo'>
  return `${what ?? ''} without ${skippedFrom === null ? 'what came before' : `${skippedFrom} to ${skippedTo}`}`
}
