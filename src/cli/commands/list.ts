import type { Action } from '../context.ts'
import { readAggregate } from '../aggregate-option.ts'
import { checkEventFilter } from '../../operations/event-filter.ts'
import { consumersColumn, errorColumn, eventColumns } from '../event-columns.ts'
import { type ListFlags, given, integerFlag } from '../flags.ts'

/** One page of events in the order of their position, or against it. */
export function listCommand(flags: ListFlags & { state?: string[]; newest?: boolean }): Action {
  const filter = given({
    states: flags.state,
    aggregate: readAggregate(flags.aggregate),
    eventType: flags.type,
    limit: integerFlag('--limit', flags.limit, { min: 1, max: 1000 }),
    after: flags.after,
    order: flags.newest === true ? ('newest' as const) : undefined,
  })
  checkEventFilter(filter)
  return ({ output, withDatabase }) =>
    withDatabase(async (db, { schema }) => {
      const { listEvents } = await import('../../operations/list-events.ts')
      const { withConsumerResults } = await import('../../operations/consumers.ts')
      const { items, next } = await listEvents(db, schema, filter)
      const page = { items: await withConsumerResults(db, schema, items), next }
      output.data(page)
      if (page.items.length === 0) {
        output.note(page.next === null ? 'no event matches' : 'no event matches so far')
      } else {
        const failed = page.items.some(({ lastError }) => lastError !== null)
        const consumed = page.items.some(({ consumers }) => consumers !== null && consumers.length > 0)
        output.table(page.items, [
          ...eventColumns,
          ...(consumed ? [consumersColumn] : []),
          ...(failed ? [errorColumn] : []),
        ])
      }
      if (page.next !== null) output.note(`there is more: the same command with --after ${page.next}`)
    })
}
