import type { Connection } from '../database/connection.ts'
import { inSchema } from '../database/identifiers.ts'
import { WaybillError } from '../errors.ts'
import { checkReason, currentUser } from '../input.ts'
import { intentKey } from '../intent-key.ts'
import { show } from '../wording.ts'
import type { Database, Facts } from './collect.ts'
import { valueOf } from './facts/fact.ts'
import { findIntent } from './facts/intent.ts'
import { findSource, revisionOf, typeOfId } from './facts/source.ts'
import type { PublicationKey } from './key.ts'
import type { Publication } from './publication.ts'
import { notInSource, whyNoReplay } from './replayable.ts'

export interface DecisionOptions {
  readonly reason: string
  /** Who decides. Default: the user of the operating system. */
  readonly by?: string
}

export interface IntentOptions extends DecisionOptions {
  /** Default: that of the publication's configuration. */
  readonly eventType?: string
  /** JSON text. Default: made from the source's row as the configuration says. */
  readonly payload?: string
}

export interface DecidedIntent {
  readonly eventId: string
  readonly intentKey: string
}

/**
 * Creates an intent that is missing, deliberately: the one way, and it is recorded. Only for a revision that the
 * source holds.
 *
 * @throws USAGE_INVALID without a reason, an event type or a payload
 * @throws ACTION_REFUSED when there is one, when the source does not hold the revision, or when a newer one was published
 */
export async function createIntent(
  { db, schema }: Database,
  publication: Publication | null,
  key: PublicationKey,
  options: IntentOptions,
): Promise<DecidedIntent> {
  const reason = checkReason(options.reason)
  const eventType = options.eventType ?? publication?.intent?.eventType
  if (eventType === undefined) throw missing('event type', '--type')
  const { row, headRevision } = await findIntent(db, schema, key)
  if (row !== null) {
    throw refused(
      `${intentKey(key)} has an intent already, event ${row.eventId}: repeat it with "waybill replay"`,
    )
  }
  if (headRevision !== null && BigInt(headRevision) > key.revision) {
    throw refused(
      `revision ${headRevision} of ${key.type} ${show(key.id)} was published already, and an older one must not come after it`,
    )
  }
  const payload = options.payload ?? (await payloadOf(db, publication, key))
  if (publication !== null) {
    const source = await findSource(db, publication, key.id, key.revision)
    if (!source.holdsRevision) throw refused(notInSource(publication, key, source.newestRevision))
  }
  const event = {
    ...{ aggregate_type: key.type, aggregate_id: key.id, event_type: eventType, headers: {} },
    ...{ revision: String(key.revision), intent_scope: key.scope, operation_id: null },
  }
  const { rows } = await db.query<{ id: string; answer: string }>(inSchema(createStatement, schema), [
    JSON.stringify(event),
    payload,
    options.by ?? currentUser(),
    reason,
  ])
  const answer = JSON.parse(rows[0]!.answer) as { ok: boolean; newest?: string }
  if (!answer.ok) {
    throw refused(
      `revision ${answer.newest ?? 'this or a newer one'} of ${key.type} ${show(key.id)} was published meanwhile`,
    )
  }
  return { eventId: rows[0]!.id, intentKey: intentKey(key) }
}

// One transaction: the guard's id is assigned before the function asks for it, and the decision stands or falls with
// the event.
const createStatement = `
  WITH inside AS MATERIALIZED (
    SELECT pg_current_xact_id() AS xid, gen_random_uuid() AS id
  ), published AS MATERIALIZED (
    SELECT i.id, "waybill".outbox_publish_intents(
             jsonb_build_array($1::text::jsonb || jsonb_build_object('id', i.id, 'payload', $2::text::jsonb))
           ) AS answer
    FROM inside AS i WHERE i.xid IS NOT NULL
  ), decided AS (
    INSERT INTO "waybill".decisions
      (action, aggregate_type, aggregate_id, revision, intent_scope, event_id, decided_by, reason)
    SELECT 'intent created', $1::text::jsonb ->> 'aggregate_type', $1::text::jsonb ->> 'aggregate_id',
           ($1::text::jsonb ->> 'revision')::bigint, $1::text::jsonb ->> 'intent_scope', p.id, $3::text, $4::text
    FROM published AS p WHERE (p.answer ->> 'ok')::boolean
  )
  SELECT p.id::text AS id, p.answer::text AS answer FROM published AS p`

async function payloadOf(
  db: Connection,
  publication: Publication | null,
  key: PublicationKey,
): Promise<string> {
  const expression = publication?.intent?.payload
  if (publication === null || expression == null) throw missing('payload', '--payload')
  const { source } = publication
  const type = await typeOfId(db, publication)
  // The expression is the operator's own SQL, from the configuration; it sees the columns of the row.
  const { rows } = await db.query<{ payload: string | null }>(
    `SELECT (${expression})::jsonb::text AS payload FROM ${source.from} AS s
     WHERE s.${source.id} = $1::text::${type} AND ${revisionOf(publication)} = $2::text::numeric`,
    [key.id, String(key.revision)],
  )
  const payload = rows[0]?.payload
  if (payload != null) return payload
  throw refused(notInSource(publication, key, null))
}

export interface ReplayOptions extends DecisionOptions {
  /** Also when a newer revision is visible already. Default: false. */
  readonly allowOlder?: boolean
  /** The newest revision that projections and public reads show; null where nothing is known. */
  readonly visibleRevision?: bigint | null
}

export interface Replay {
  readonly eventId: string
  readonly intentKey: string
  /** The header `replay` of the repeated message. */
  readonly number: number
}

/**
 * Repeats exactly one key: the same event id, the same bytes. Never writes a new revision, never creates an intent.
 *
 * @throws USAGE_INVALID without a reason
 * @throws ACTION_REFUSED when the intent is missing or was not published yet, when the source does not hold that
 *   revision, when a newer one is visible, or while an earlier replay is still open
 */
export async function replay(
  { db, schema }: Database,
  publication: Publication | null,
  key: PublicationKey,
  options: ReplayOptions,
): Promise<Replay> {
  const reason = checkReason(options.reason)
  const printed = intentKey(key)
  const intent = await findIntent(db, schema, key)
  const source =
    publication === null || intent.row?.state !== 'published'
      ? null
      : await findSource(db, publication, key.id, key.revision)
  const visible = options.allowOlder === true ? null : (options.visibleRevision ?? null)
  const refusal = whyNoReplay({ intent, source, visibleRevision: visible }, publication, key)
  if (refusal !== null) throw refused(refusal)
  const { eventId } = intent.row!
  const { rows } = await db.query<{ number: number }>(inSchema(replayStatement, schema), [
    eventId,
    options.by ?? currentUser(),
    reason,
  ])
  if (rows[0] !== undefined) return { eventId, intentKey: printed, number: rows[0].number }
  throw refused(`a replay of ${printed} is open still: wait until it went out, "waybill trace" shows it`)
}

// The unique index replays_open lets one of two at once through.
const replayStatement = `
  WITH asked AS (
    INSERT INTO "waybill".replays (event_id, number, requested_by, reason)
    SELECT e.id, coalesce((SELECT max(r.number) FROM "waybill".replays AS r WHERE r.event_id = e.id), 0) + 1,
           $2::text, $3::text
    FROM "waybill".outbox_events AS e WHERE e.id = $1::text::uuid
    ON CONFLICT DO NOTHING
    RETURNING event_id, number
  ), decided AS (
    INSERT INTO "waybill".decisions
      (action, aggregate_type, aggregate_id, revision, intent_scope, event_id, decided_by, reason, details)
    SELECT 'replayed', e.aggregate_type, e.aggregate_id, e.revision, e.intent_scope, e.id, $2::text, $3::text,
           jsonb_build_object('number', a.number)
    FROM asked AS a JOIN "waybill".outbox_events AS e ON e.id = a.event_id
  )
  SELECT a.number AS "number" FROM asked AS a`

/** The newest revision that any projection or public read is known to show. */
export function visibleRevision({ projections, reads }: Pick<Facts, 'projections' | 'reads'>): bigint | null {
  let newest: bigint | null = null
  for (const { fact } of [...projections, ...reads]) {
    const revision = valueOf<{ revision: string | null }>(fact)?.revision
    if (revision != null && (newest === null || BigInt(revision) > newest)) newest = BigInt(revision)
  }
  return newest
}

/** What somebody decided. */
export interface Decision {
  readonly action: string
  /** `note n-42:7`, `projection public_notes`, or the id of an event; null for a decision about many. */
  readonly what: string | null
  readonly eventId: string | null
  readonly decidedBy: string
  readonly reason: string
  readonly decidedAt: string
  /** What the kind of decision has of its own, such as the consumer and the revisions that a release skips. */
  readonly details: Readonly<Record<string, unknown>>
}

/** The newest decisions first. Index decisions_decided_at. */
export async function listDecisions(
  { db, schema }: Database,
  { limit = 50, aggregate }: { limit?: number; aggregate?: readonly [type: string, id: string] } = {},
): Promise<readonly Decision[]> {
  const { rows } = await db.query<Decision>(
    inSchema(
      `SELECT d.action AS "action", d.event_id::text AS "eventId", d.decided_by AS "decidedBy", d.reason AS "reason",
              d.details AS "details", to_char(d.decided_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS "decidedAt",
              CASE WHEN d.aggregate_id IS NULL THEN coalesce(d.event_id::text, 'projection ' || (d.details ->> 'projection'))
                   ELSE d.aggregate_type || ' ' || d.aggregate_id || coalesce(':' || d.revision, '')
                        || coalesce('#' || NULLIF(d.intent_scope, ''), '') END AS "what"
       FROM "waybill".decisions AS d
       WHERE $2::text IS NULL OR (d.aggregate_type = $2::text AND d.aggregate_id = $3::text)
       ORDER BY d.decided_at DESC, d.id LIMIT $1::int`,
      schema,
    ),
    [limit, aggregate?.[0] ?? null, aggregate?.[1] ?? null],
  )
  return rows
}

function missing(what: string, flag: string): WaybillError {
  return new WaybillError(
    'USAGE_INVALID',
    `an intent needs ${what === 'event type' ? 'an' : 'a'} ${what}: give ${flag}, or configure "intent" of the publication`,
  )
}

function refused(message: string): WaybillError {
  return new WaybillError('ACTION_REFUSED', message)
}
