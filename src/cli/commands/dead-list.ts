import type { Action } from '../context.ts'
import { checkEventFilter } from '../../operations/event-filter.ts'
import { eventColumns, seconds } from '../event-columns.ts'
import { type FilterFlags, type ListFlags, given, integerFlag } from '../flags.ts'
import type { Column } from '../output.ts'
import type { DeadLetter } from '../../operations/dead-letters.ts'
import { deadLetterFilter } from '../dead-letter-filter.ts'

const columns: readonly Column<DeadLetter>[] = [
  ...eventColumns.filter(({ title }) => title !== 'state' && title !== 'created'),
  { title: 'died', text: ({ deadAt }) => seconds(deadAt) },
  { title: 'holds', text: ({ holds }) => (holds ? 'yes' : 'no') },
  { title: 'reason', text: ({ reason }) => reason ?? '', limit: 100 },
]

/** One page of dead letters in the order of their position. */
export function deadListCommand(flags: ListFlags & FilterFlags): Action {
  const options = {
    ...deadLetterFilter(flags),
    ...given({ limit: integerFlag('--limit', flags.limit, { min: 1, max: 1000 }), after: flags.after }),
  }
  checkEventFilter(options)
  return ({ output, withDatabase }) =>
    withDatabase(async (db, { schema }) => {
      const { listDeadLetters } = await import('../../operations/dead-letters.ts')
      const page = await listDeadLetters(db, schema, options)
      output.data(page)
      if (page.items.length > 0) output.table(page.items, columns)
      else output.note(page.next === null ? 'there is no dead letter' : 'no dead letter matches so far')
      if (page.next !== null) output.note(`there is more: the same command with --after ${page.next}`)
    })
}
