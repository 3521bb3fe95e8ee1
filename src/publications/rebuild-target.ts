import { databaseError } from '../database/failures.ts'
import { inSchema } from '../database/identifiers.ts'
import { consumerPrivileges } from '../database/privileges.ts'
import { hasCode } from '../errors.ts'
import { type RebuildMessage, encodeRebuild, rebuildId } from '../publishing/rebuild-message.ts'
import type { Database } from './collect.ts'

/** How far a consumer is with what it was given. */
export interface TargetState {
  /** Aggregates that wait for it, counted up to the limit. */
  readonly waiting: number
  /** Dead letters of this projection since the rebuild began. */
  readonly dead: number
  /** Why one of them died. */
  readonly reason: string | null
  /** A process of the consumer is at work that handles the events. */
  readonly isAlive: boolean
}

/** The database of a consumer with a projection, seen from a rebuild. */
export interface RebuildTarget {
  /** The moment from which dead letters count. */
  begin(): Promise<void>
  /** One statement: all of them wait for the consumer, or none. */
  put(messages: readonly RebuildMessage[]): Promise<void>
  look(eventType: string, most: number): Promise<TargetState>
  /** Aggregates that the projection knows, page by page. */
  projected(aggregateType: string, after: string, most: number): Promise<readonly string[]>
}

export function createRebuildTarget(
  { db, schema }: Database,
  { consumer, projection }: { consumer: string; projection: string },
): RebuildTarget {
  const run = async <Row>(sql: string, ...values: unknown[]) => {
    try {
      return (await db.query<Row>(inSchema(sql, schema), values)).rows
    } catch (error) {
      throw lackingAsConsumer(error, { where: db.where, schema })
    }
  }
  let since = 'infinity'
  return {
    async begin() {
      const [row] = await run<{ now: string }>('SELECT clock_timestamp()::text AS now')
      since = row!.now
    },
    async put(messages) {
      if (messages.length === 0) return
      const given = messages.map((message) => ({
        id: rebuildId(message),
        ...{ type: message.eventType, aggregate_type: message.aggregateType },
        ...{ aggregate_id: message.aggregateId, revision: message.revisions.at(-1)!.revision },
        body: Buffer.from(encodeRebuild(message)).toString('base64'),
      }))
      await run(putStatement, consumer, projection, JSON.stringify(given))
    },
    async look(eventType, most) {
      const [row] = await run<TargetState>(lookStatement, consumer, projection, since, eventType, most)
      return row!
    },
    async projected(aggregateType, after, most) {
      const rows = await run<{ id: string }>(projectedStatement, projection, aggregateType, after, most)
      return rows.map(({ id }) => id)
    },
  }
}

/** What is lacking here is a privilege of the consumer's role, of which a relay's has only some. */
function lackingAsConsumer(error: unknown, context: { where: string; schema: string }): unknown {
  if (!hasCode(error, 'PERMISSION_DENIED')) return error
  const role = error.details['role']
  return databaseError(error.cause, {
    ...context,
    ...(typeof role === 'string' ? { role } : {}),
    privileges: consumerPrivileges,
  })
}

/**
 * $1 consumer, $2 projection, $3 messages. What waits already is left as it is; a dead letter is tried again. The row
 * of the inbox is what a process of the consumer claims. It names no aggregate and no time: what is asked for is no
 * result of an event, so neither a trace nor `status` may take it for one. In one order, so that two rebuilds at once
 * do not wait for each other in a circle. Primary keys.
 */
const putStatement = `
  WITH given AS MATERIALIZED (
    SELECT g.* FROM json_to_recordset($3::text::json)
      AS g(id text, type text, aggregate_type text, aggregate_id text, revision bigint, body text)
    WHERE NOT EXISTS (
      SELECT FROM "waybill".consumer_messages AS m
      JOIN "waybill".processed_events AS p ON p.consumer = m.consumer AND p.event_id = m.event_id
      WHERE m.consumer = $1::text AND m.event_id = g.id AND m.state IN ('rebuild', 'retry'))
    ORDER BY g.id
  ), claimable AS (
    INSERT INTO "waybill".processed_events AS p (consumer, event_id, result, processed_at)
    SELECT $1::text, g.id, 'parked', 'epoch' FROM given AS g
    ON CONFLICT (consumer, event_id) DO UPDATE SET result = 'parked', error = NULL, processed_at = 'epoch'
    RETURNING event_id
  )
  INSERT INTO "waybill".consumer_messages AS m
    (consumer, event_id, state, event_type, aggregate_type, aggregate_id, revision, projection, origin, delivery, body)
  SELECT $1::text, g.id, 'rebuild', g.type, g.aggregate_type, g.aggregate_id, g.revision, $2::text,
         'rebuild:' || $2::text,
         json_build_object('binding', 'plain', 'headers', '[]'::json, 'contentType', 'application/json', 'topic', NULL,
                           'key', g.aggregate_id, 'origin', 'rebuild:' || $2::text),
         decode(g.body, 'base64')
  FROM given AS g JOIN claimable AS c ON c.event_id = g.id
  ORDER BY g.id
  ON CONFLICT (consumer, event_id) DO UPDATE
    SET state = 'rebuild', attempts = 0, crashes = 0, error = NULL, body = excluded.body,
        projection = excluded.projection, changed_at = clock_timestamp()`

/**
 * $1 consumer, $2 projection, $3 since when, $4 event type, $5 the most. Indexes consumer_messages_retry and
 * consumer_messages_dead, and the primary key of the few processes.
 */
export const lookStatement = `
  SELECT (SELECT count(*)::int FROM (
            SELECT FROM "waybill".consumer_messages AS m
            WHERE m.consumer = $1::text AND m.state = 'rebuild' AND m.projection = $2::text LIMIT $5::int) AS w) AS "waiting",
         d.count AS "dead", d.reason AS "reason",
         EXISTS (SELECT FROM "waybill".consumer_instances AS i
                 WHERE i.consumer = $1::text AND i.expires_at > clock_timestamp()
                   AND i.handlers && ARRAY[$4::text, '*']) AS "isAlive"
  FROM (SELECT count(*)::int AS count, min(m.error) AS reason FROM "waybill".consumer_messages AS m
        WHERE m.consumer = $1::text AND m.state = 'dead' AND m.projection = $2::text
          AND m.changed_at >= $3::text::timestamptz) AS d`

/** $1 projection, $2 aggregate type, $3 after which id, $4 how many. The primary key. */
const projectedStatement = `
  SELECT r.aggregate_id AS "id" FROM "waybill".projection_revisions AS r
  WHERE r.projection = $1::text AND r.aggregate_type = $2::text AND r.aggregate_id > $3::text
  ORDER BY r.aggregate_id LIMIT $4::int`
