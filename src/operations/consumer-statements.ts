import { beatLastsSeconds } from '../consumer/registration.ts'

const iso = (time: string) => `to_char(${time} AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')`

// What is asked about consumers. Each statement is bounded, whatever lies in processed_events.

/** $1 the most. Primary key. */
export const consumersStatement = `
  SELECT c.consumer AS "name", c.handlers AS "handlers", ${iso('c.seen_at')} AS "seenAt"
  FROM "waybill".consumers AS c ORDER BY c.consumer LIMIT $1::int`

/** $1 the most. As many rows as there are processes, and those that died since yesterday. */
export const instancesStatement = `
  SELECT i.consumer AS "consumer", i.instance_id::text AS "id", i.host AS "host", i.process_id AS "processId",
         i.version AS "version", i.subscription AS "subscription", ${iso('i.started_at')} AS "startedAt",
         ${iso(`(i.expires_at - interval '${beatLastsSeconds} seconds')`)} AS "seenAt"
  FROM "waybill".consumer_instances AS i WHERE i.expires_at > clock_timestamp()
  ORDER BY i.consumer, i.started_at, i.instance_id LIMIT $1::int`

// Whatever has an order and a limit is counted off ten at a time: a planner that believes in few rows would read and
// sort all of them for a larger step, and for so few it has no reason to.

const step = 10

/**
 * $1 consumer, $2 the most, a multiple of ten. Its newest results of the last hour, and the time that they took. Index
 * processed_events_processed_at, counted off from its end; with that bound it does not matter how the rest is read.
 */
export const resultsOfConsumerStatement = `
  WITH RECURSIVE steps(at, number) AS (
    SELECT 'infinity'::timestamptz, 0
    UNION ALL
    SELECT f.at, s.number + 1 FROM steps AS s CROSS JOIN LATERAL (
      SELECT p.processed_at AS at FROM "waybill".processed_events AS p
      WHERE p.consumer = $1::text AND p.processed_at < s.at AND p.processed_at > now() - interval '1 hour'
      ORDER BY p.processed_at DESC OFFSET ${step - 1} LIMIT 1
    ) AS f
    WHERE s.number < $2::int / ${step}
  ), bound(since) AS (
    SELECT CASE WHEN max(s.number) < $2::int / ${step} THEN now() - interval '1 hour' ELSE min(s.at) END FROM steps AS s
  )
  SELECT count(*) FILTER (WHERE p.result = 'applied')::int AS "applied",
         count(*) FILTER (WHERE p.result = 'stale')::int AS "stale",
         count(*) FILTER (WHERE p.result = 'rejected')::int AS "rejected",
         count(*) FILTER (WHERE p.result = 'parked')::int AS "parked",
         extract(epoch FROM now() - b.since)::float8 AS "overSeconds"
  FROM bound AS b LEFT JOIN LATERAL (
    SELECT p.result FROM "waybill".processed_events AS p WHERE p.consumer = $1::text AND p.processed_at >= b.since
    ORDER BY p.processed_at DESC LIMIT $2::int
  ) AS p ON true
  GROUP BY b.since`

/** Counts the messages of an index of consumer_messages: $1 consumer, $2 the most, a multiple of ten. */
function countMessages(states: string, counted: string, starts: Readonly<Record<string, string>>): string {
  const columns = (alias: string) =>
    Object.keys(starts)
      .map((column) => `${alias}.${column}`)
      .join(', ')
  const messages = `FROM "waybill".consumer_messages AS m WHERE m.consumer = $1::text AND m.state IN (${states})`
  return `
  WITH RECURSIVE steps(${Object.keys(starts).join(', ')}, number) AS (
    SELECT ${Object.values(starts).join(', ')}, 0
    UNION ALL
    SELECT f.*, s.number + 1 FROM steps AS s CROSS JOIN LATERAL (
      SELECT ${columns('m')} ${messages} AND (${columns('m')}) > (${columns('s')})
      ORDER BY ${columns('m')} OFFSET ${step - 1} LIMIT 1
    ) AS f
    WHERE s.number < $2::int / ${step}
  )
  SELECT CASE WHEN max(s.number) >= $2::int / ${step} THEN $2::int
              ELSE (SELECT count(*) FILTER (WHERE n.state = '${counted}') FROM (
                      SELECT m.state ${messages} ORDER BY ${columns('m')} LIMIT $2::int) AS n) END::int AS "count"
  FROM steps AS s`
}

/** Dead letters that nobody has put back. Index consumer_messages_dead. */
export const deadOfConsumerStatement = countMessages("'dead', 'retry'", 'dead', {
  changed_at: `'-infinity'::timestamptz`,
  event_id: `''::text`,
})

/** What waits for the revisions before it. Index consumer_messages_parked. */
export const parkedOfConsumerStatement = countMessages("'parked'", 'parked', {
  projection: `''::text`,
  aggregate_type: `''::text`,
  aggregate_id: `''::text`,
  revision: '(-1)::bigint',
})

/**
 * $1 consumer. Where its newest results are in the outbox: the first position among them; null when this outbox has
 * none of their events. Index processed_events_processed_at from its end, then the primary key of the events, row by
 * row.
 */
export const frontierStatement = `
  SELECT min(f.position)::text AS "position" FROM (
    SELECT p.event_id FROM "waybill".processed_events AS p WHERE p.consumer = $1::text
    ORDER BY p.processed_at DESC LIMIT ${step}
  ) AS r CROSS JOIN LATERAL (
    SELECT e.position FROM "waybill".outbox_events AS e
    WHERE e.id = CASE WHEN r.event_id ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' THEN r.event_id::uuid END
    OFFSET 0
  ) AS f`

/**
 * $1 after which position, $2 up to which (`windowStatement` finds it), $3 consumer, $4 the types that it handles. The
 * events of one window that have no result of it: which of them was handed over first, and the first that will need
 * another look. A younger one may still have a neighbour before it that was not committed. A subquery in the select
 * list, since it cannot become a join: index outbox_events_position, then the primary key of processed_events, row by
 * row.
 */
export const lagStatement = `
  SELECT max(w.position)::text AS "last",
         CASE WHEN bool_or(w.open AND w.processed_at IS NOT NULL) THEN
           greatest(0, extract(epoch FROM clock_timestamp() - min(w.processed_at) FILTER (WHERE w.open))) END::float8
           AS "lagSeconds",
         min(w.position) FILTER (WHERE w.open OR w.created_at > now() - interval '5 seconds')::text AS "firstOpen"
  FROM (
    SELECT e.position, e.processed_at, e.created_at,
           CASE WHEN NOT e.event_type = ANY ($4::text[]) THEN false
                WHEN e.processed_at IS NULL THEN e.dead_at IS NULL AND e.discarded_at IS NULL
                ELSE (SELECT p.result FROM "waybill".processed_events AS p
                      WHERE p.consumer = $3::text AND p.event_id = e.id::text) IS NULL END AS open
    FROM "waybill".outbox_events AS e WHERE e.position > $1::bigint AND e.position <= $2::bigint
    OFFSET 0
  ) AS w`

/**
 * $1 ids of events, $2 the most consumers. What each consumer made of each: by the primary keys, one by one. One that
 * is being tried again has no result yet.
 */
export const resultsStatement = `
  SELECT ids.id AS "eventId", c.consumer AS "consumer", r.result AS "result", r.attempts AS "attempts",
         r.error AS "error", ${iso('r.at')} AS "at"
  FROM (SELECT c.consumer FROM "waybill".consumers AS c ORDER BY c.consumer LIMIT $2::int) AS c
  CROSS JOIN unnest($1::text[]) AS ids(id)
  CROSS JOIN LATERAL (
    (SELECT p.result, p.attempts, p.error, p.processed_at AS at FROM "waybill".processed_events AS p
     WHERE p.consumer = c.consumer AND p.event_id = ids.id OFFSET 0)
    UNION ALL
    (SELECT 'failing', m.attempts, m.error, m.changed_at FROM "waybill".consumer_messages AS m
     WHERE m.consumer = c.consumer AND m.event_id = ids.id AND m.state = 'failing' OFFSET 0)
  ) AS r`
