import type { Connection } from '../database/connection.ts'
import { inSchema } from '../database/identifiers.ts'
import { WaybillError } from '../errors.ts'
import { type ListOrder, checkOrder, decodeCursor, encodeCursor } from './cursor.ts'
import { type Conditions, type EventFilter, checkEventFilter, sourcesOf } from './event-filter.ts'
import { type EventDetail, type EventItem, detailColumns, itemColumns } from './event-item.ts'
import { checkEventId, checkLimit } from '../input.ts'
import { walk } from './walk.ts'

export interface PageOptions {
  /** Most items of the page, 1 to 1000. Default: 50. */
  limit?: number
  /** The `next` of the page before. */
  after?: string | null
  /** With payload and headers. Default: false. */
  withPayload?: boolean
  /**
   * How long to look for matches before a page is returned with what was found, in milliseconds. Default: 5 000.
   * A page may so be short, even empty, and still have a `next`.
   */
  timeLimitMs?: number
}

export interface ListEventsOptions extends EventFilter, PageOptions {
  /** Which end comes first, by position; the same for every page of a list. Default: `oldest`. */
  order?: ListOrder
}

export interface EventPage {
  readonly items: readonly EventItem[]
  /** Cursor of the next page, null on the last one. */
  readonly next: string | null
}

/**
 * Events in the order of `position`, or against it, page by page. Each statement is bounded, whatever the number of
 * published events; a filter that matches little may need many of them, see `timeLimitMs`.
 *
 * @throws USAGE_INVALID for a bad filter, order, limit or cursor.
 */
export async function listEvents(
  db: Connection,
  schema: string,
  options: ListEventsOptions = {},
): Promise<EventPage> {
  return listMatching(db, schema, checkEventFilter(options), options, checkOrder(options.order ?? 'oldest'))
}

/** A page of whatever the conditions say: what `listEvents` and `listDeadLetters` share. */
export async function listMatching(
  db: Connection,
  schema: string,
  conditions: Conditions,
  { limit = 50, after, withPayload = false, timeLimitMs = 5_000 }: PageOptions,
  order: ListOrder = 'oldest',
): Promise<EventPage> {
  checkLimit(limit)
  const start = decodeCursor(after, order)
  const deadline = performance.now() + timeLimitMs
  const walked = []
  for (const source of sourcesOf(conditions.states)) {
    walked.push(
      await walk<EventItem>({
        db,
        schema,
        source,
        conditions,
        columns: itemColumns(withPayload),
        order,
        after: start,
        need: limit + 1,
        isOver: () => performance.now() > deadline,
      }),
    )
  }
  const sooner = order === 'oldest' ? (a: bigint, b: bigint) => a < b : (a: bigint, b: bigint) => a > b
  // Beyond the nearest end of what was looked at, a source may hold events that are not known yet.
  const ends = walked.flatMap(({ upTo }) => (upTo === null ? [] : [BigInt(upTo)]))
  const known = ends.length === 0 ? null : ends.reduce((a, b) => (sooner(a, b) ? a : b))
  const items = walked
    .flatMap(({ rows }) => rows)
    .filter(({ position }) => known === null || !sooner(known, BigInt(position)))
    .sort((a, b) => (sooner(BigInt(a.position), BigInt(b.position)) ? -1 : 1))
  const page = items.slice(0, limit)
  if (items.length > limit) return { items: page, next: encodeCursor(page.at(-1)!.position, order) }
  return { items: page, next: known === null ? null : encodeCursor(known.toString(), order) }
}

/**
 * One event. Its payload and headers come only when asked for.
 *
 * @throws USAGE_INVALID when the id is no UUID, EVENT_NOT_FOUND.
 */
export async function getEvent(
  db: Connection,
  schema: string,
  id: string,
  { withPayload = false }: { withPayload?: boolean } = {},
): Promise<EventDetail> {
  const { rows } = await db.query<EventDetail>(
    inSchema(
      `SELECT ${detailColumns(withPayload)} FROM "waybill".outbox_events AS e WHERE e.id = $1::text::uuid`,
      schema,
    ),
    [checkEventId(id)],
  )
  const [event] = rows
  if (event !== undefined) return event
  throw new WaybillError(
    'EVENT_NOT_FOUND',
    `no event has the id ${id}: it was never written, its transaction was rolled back, or retention removed it`,
  )
}
