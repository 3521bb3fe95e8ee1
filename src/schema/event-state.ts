import type { EventState } from '../types.ts'

// The one place that says in SQL what the words of `eventStates` mean. Every expression is about a row of
// "waybill".outbox_events under the alias `e` and stands as it is in statements written for that schema.

/** The bucket of an event, as the indexes spell it. */
export const bucketSql = '"waybill".outbox_bucket(e.aggregate_type, e.aggregate_id)'

/** Many aggregates at once are looked for by this: 64 bits compare faster than two texts, which settle it. */
export const aggregateHashSql =
  'hashtextextended(e.aggregate_id COLLATE "C", hashtextextended(e.aggregate_type COLLATE "C", 0))'

/** Not settled: the predicate of the index outbox_events_pending. */
export const unsettledSql = 'e.processed_at IS NULL AND e.dead_at IS NULL AND e.discarded_at IS NULL'

/** The predicate of the index outbox_events_dead and of the view outbox_dead_letters. */
export const deadSql = 'e.dead_at IS NOT NULL AND e.processed_at IS NULL AND e.discarded_at IS NULL'

/**
 * The event `b` holds the later events of its aggregate back: it failed and will be tried again, or it is a dead
 * letter that holds. The predicate of the index outbox_events_troubled.
 */
export const blockerSql =
  'b.processed_at IS NULL AND b.discarded_at IS NULL AND b.last_attempt_at IS NOT NULL AND (b.dead_at IS NULL OR b.holds)'

/** The first event that holds `e` back; one probe of outbox_events_troubled. */
export const blockedBySql = `SELECT b.id FROM "waybill".outbox_events AS b
        WHERE b.aggregate_type = e.aggregate_type AND b.aggregate_id = e.aggregate_id AND b.position < e.position
          AND ${blockerSql}
        ORDER BY b.position LIMIT 1`

/**
 * The state of an event. `blocked` goes before `retrying`: an event that failed itself and now waits for an earlier
 * one moves on only when that one does.
 */
export const eventStateSql = `CASE
        WHEN e.processed_at IS NOT NULL THEN 'published'
        WHEN e.discarded_at IS NOT NULL THEN 'discarded'
        WHEN e.dead_at IS NOT NULL THEN 'dead'
        WHEN EXISTS (${blockedBySql}) THEN 'blocked'
        WHEN e.last_attempt_at IS NOT NULL THEN 'retrying'
        ELSE 'pending'
      END`

/** The states of events that are still to be delivered. */
export const unsettledStates: readonly EventState[] = ['pending', 'retrying', 'blocked']
