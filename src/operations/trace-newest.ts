import { hasCode } from '../errors.ts'
import type { FactSources } from '../publications/collect.ts'
import {
  type Publications,
  type Trace,
  type TraceRequest,
  keyOfEvent,
  tracePublication,
} from '../publications/trace.ts'
import { listEvents } from './list-events.ts'

/**
 * The trace of a publication; where nothing is known of any revision of the aggregate, that of its newest event. No
 * index leads to that one, so it is looked for from the newest event of all on, for five seconds at most.
 *
 * @throws USAGE_INVALID, REVISION_UNKNOWN
 */
export async function traceNewest(
  sources: FactSources,
  publications: Publications,
  request: TraceRequest,
): Promise<Trace> {
  try {
    return await tracePublication(sources, publications, request)
  } catch (error) {
    if (!hasCode(error, 'REVISION_UNKNOWN')) throw error
    const { db, schema } = sources.outbox
    const { type, id } = request
    const { items } = await listEvents(db, schema, { aggregate: [type, id], order: 'newest', limit: 1 })
    if (items[0] === undefined) throw error
    return tracePublication(sources, publications, await keyOfEvent(sources, items[0].id))
  }
}
