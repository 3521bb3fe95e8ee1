import { WaybillError } from '../errors.ts'
import type { DeadLetterTarget } from '../operations/dead-letter-targets.ts'
import type { DeadLetterFilter } from '../operations/event-filter.ts'
import { readAggregate } from './aggregate-option.ts'
import { type ActionFlags, type FilterFlags, given } from './flags.ts'

/** The filter that the flags describe; empty when there is none. */
export function deadLetterFilter(flags: FilterFlags): DeadLetterFilter {
  return given({
    aggregate: readAggregate(flags.aggregate),
    eventType: flags.type,
    error: flags.error,
    before: flags.before,
  })
}

/** Which dead letters an action is about: ids, a filter, or all of them. */
export function deadLetterTarget(flags: ActionFlags, ids: readonly string[]): DeadLetterTarget {
  const filter = deadLetterFilter(flags)
  const ways = [ids.length > 0, Object.keys(filter).length > 0, flags.all === true].filter(Boolean).length
  if (ways !== 1) {
    const problem = ways === 0 ? 'say which dead letters' : 'choose one way to say which dead letters'
    throw new WaybillError(
      'USAGE_INVALID',
      `${problem}: ids of events, or filters (--aggregate, --type, --error, --before), or --all`,
    )
  }
  if (ids.length > 0) return { ids }
  return flags.all === true ? { all: true } : { filter }
}
