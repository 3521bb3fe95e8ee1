import { skippedMark } from '../consumer/projection-statements.ts'
import type { Connection } from '../database/connection.ts'
import { inSchema } from '../database/identifiers.ts'
import { WaybillError } from '../errors.ts'
import { checkReason, checkText, currentUser } from '../input.ts'
import { show } from '../wording.ts'

export interface ReleaseOptions {
  /** The consumer that parked the events. */
  readonly consumer: string
  readonly aggregate: readonly [type: string, id: string]
  /** Which, where several projections of the consumer wait for revisions of this aggregate. */
  readonly projection?: string
  readonly reason: string
  /** Default: the user of this process. */
  readonly decidedBy?: string
}

/** A projection goes on without revisions that will never come. Revisions are decimal text. */
export interface Release {
  readonly consumer: string
  readonly projection: string
  readonly aggregate: readonly [type: string, id: string]
  /** The first revision that is not waited for any more; null where the projection had none of this aggregate. */
  readonly skippedFrom: string | null
  /** The last one. */
  readonly skippedTo: string
  /** The parked revision whose turn it is now. */
  readonly next: string
}

/**
 * $1 consumer, $2 $3 aggregate. The projections in which events of it are parked, with the revision that each has
 * stored and the lowest parked one above. Index consumer_messages_parked, the part of one consumer.
 */
const waiting = `
  SELECT m.projection AS "projection", r.revision::text AS "stored", min(m.revision)::text AS "next"
  FROM "waybill".consumer_messages AS m
  LEFT JOIN "waybill".projection_revisions AS r
    ON r.projection = m.projection AND r.aggregate_type = m.aggregate_type AND r.aggregate_id = m.aggregate_id
  WHERE m.consumer = $1::text AND m.state = 'parked' AND m.aggregate_type = $2::text AND m.aggregate_id = $3::text
    AND m.revision > coalesce(r.revision, -1)
  GROUP BY m.projection, r.revision ORDER BY m.projection`

/**
 * $1 consumer, $2 projection, $3 $4 aggregate, $5 stored revision or null, $6 next. A revision of the gap that is there
 * after all: it failed, or another consumer with the same projection has parked it. Looks through what consumers keep.
 */
const notMissing = `
  SELECT m.consumer AS "consumer", m.state AS "state", m.revision::text AS "revision", m.event_id AS "eventId"
  FROM "waybill".consumer_messages AS m
  WHERE m.aggregate_type = $3::text AND m.aggregate_id = $4::text
    AND (m.consumer = $1::text OR (m.state = 'parked' AND m.projection = $2::text))
    AND m.revision > coalesce($5::text::bigint, -1) AND m.revision < $6::text::bigint
  ORDER BY m.revision LIMIT 1`

/**
 * $1 consumer, $2 projection, $3 $4 aggregate, $5 stored revision or null, $6 next, $7 who, $8 why. Only from the
 * revision that was seen: whoever applies the missing one at the same moment has the row, and wins; so does the first
 * of two releases.
 */
const release = `
  WITH moved AS (
    INSERT INTO "waybill".projection_revisions AS r (projection, aggregate_type, aggregate_id, revision, event_id)
    VALUES ($2::text, $3::text, $4::text, $6::text::bigint - 1, '${skippedMark}')
    ON CONFLICT (projection, aggregate_type, aggregate_id) DO UPDATE
      SET revision = excluded.revision, event_id = excluded.event_id, applied_at = clock_timestamp()
      WHERE r.revision = $5::text::bigint
    RETURNING revision
  ), decided AS (
    INSERT INTO "waybill".decisions
      (action, aggregate_type, aggregate_id, revision, intent_scope, decided_by, reason, details)
    SELECT 'released', $3::text, $4::text, $6::text::bigint, '', $7::text, $8::text,
           jsonb_build_object('consumer', $1::text, 'projection', $2::text,
             'skippedFrom', ($5::text::bigint + 1)::text, 'skippedTo', moved.revision::text)
    FROM moved
  )
  SELECT revision::text FROM moved`

const known = `
  SELECT EXISTS (SELECT FROM "waybill".consumers AS c WHERE c.consumer = $1::text) AS "consumer",
         EXISTS (SELECT FROM "waybill".processed_events AS p
                 WHERE p.aggregate_type = $2::text AND p.aggregate_id = $3::text AND p.consumer = $1::text)
           AS "aggregate"`

interface Waiting {
  readonly projection: string
  readonly stored: string | null
  readonly next: string
}

/**
 * Lets a projection without gaps go on without revisions of one aggregate that will never come: the revision before the
 * lowest parked one counts as seen, together with the decision. A process of the consumer applies the parked ones in
 * order within its `pollIntervalMs`; a skipped revision that comes all the same is stale.
 *
 * @throws USAGE_INVALID without a reason
 * @throws ACTION_REFUSED when nothing of the aggregate is parked, when no revision is missing (any more), when the
 *   consumer has the missing one and failed with it, or when several projections wait and none is named
 */
export async function releaseParked(
  db: Connection,
  schema: string,
  options: ReleaseOptions,
): Promise<Release> {
  const consumer = checkText('consumer', options.consumer, 100)
  const type = checkText('aggregate type', options.aggregate[0])
  const id = checkText('aggregate id', options.aggregate[1])
  const who = checkText('decidedBy', options.decidedBy ?? currentUser(), 200)
  const reason = checkReason(options.reason)
  const aggregate = [type, id] as const
  const query = async <Row>(statement: string, ...values: (string | null)[]) =>
    (await db.query<Row>(inSchema(statement, schema), values)).rows

  const found = await query<Waiting>(waiting, consumer, type, id)
  const parked = found.filter(({ projection }) => projection === (options.projection ?? projection))
  if (parked.length === 0) {
    const [is] = await query<{ consumer: boolean; aggregate: boolean }>(known, consumer, type, id)
    throw refused(whyNothing(consumer, aggregate, is!, found))
  }
  if (parked.length > 1)
    throw refused(`several projections wait, name one with --projection: ${named(found)}`)
  const { projection, stored, next } = parked[0]!
  const after = stored === null ? null : BigInt(stored) + 1n
  if (after === BigInt(next)) throw refused(closed(aggregate, next))
  const gap = [consumer, projection, type, id, stored, next] as const
  const [there] = await query<NotMissing>(notMissing, ...gap)
  if (there !== undefined) throw refused(whyNotMissing(there))
  const moved = await query<{ revision: string }>(release, ...gap, who, reason)
  if (moved[0] === undefined) throw refused(closed(aggregate, next))
  return {
    ...{ consumer, projection, aggregate },
    skippedFrom: after === null ? null : String(after),
    skippedTo: moved[0].revision,
    next,
  }
}

function refused(message: string): WaybillError {
  return new WaybillError('ACTION_REFUSED', message)
}

function whyNothing(
  consumer: string,
  [type, id]: Release['aggregate'],
  is: { consumer: boolean; aggregate: boolean },
  others: readonly Waiting[],
): string {
  if (!is.consumer)
    return `no consumer ${show(consumer)} is known in this database: "waybill status" lists those that are`
  if (!is.aggregate)
    return `the consumer ${show(consumer)} knows nothing of ${type} ${show(id)}: check the type and the id`
  if (others.length > 0)
    return `nothing of ${type} ${show(id)} is parked in this projection, but in others: ${named(others)}`
  return `nothing of ${type} ${show(id)} is parked in the consumer ${show(consumer)} behind a missing revision, so there is nothing to release`
}

function closed([type, id]: Release['aggregate'], next: string): string {
  return `nothing is missing before revision ${next} of ${type} ${show(id)} any more, it came or somebody released it: a process of the consumer goes on with it`
}

interface NotMissing {
  readonly consumer: string
  readonly state: 'failing' | 'dead' | 'retry' | 'parked'
  readonly revision: string
  readonly eventId: string
}

function whyNotMissing({ consumer, state, revision, eventId }: NotMissing): string {
  const which = `revision ${revision} is not missing, the consumer ${show(consumer)} has it`
  if (state === 'parked') return `${which} parked in the same projection: release that one first`
  if (state === 'dead')
    return `${which} among its dead letters: retry or discard the event ${eventId} with "waybill consumer dead" first`
  return `${which} and tries it again: wait, or mend what it fails of`
}

function named(waiting: readonly Waiting[]): string {
  return waiting.map(({ projection }) => show(projection)).join(', ')
}
