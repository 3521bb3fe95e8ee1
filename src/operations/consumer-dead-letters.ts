import type { Connection } from '../database/connection.ts'
import { inSchema } from '../database/identifiers.ts'
import { show } from '../wording.ts'
import { checkLimit, checkReason, checkText, currentUser, usageInvalid } from '../input.ts'
import type { DeadLetterActionOptions } from './dead-letters.ts'

/** A message that a consumer gave up. */
export interface ConsumerDeadLetter {
  readonly consumer: string
  /** A substitute for a message that has no id of its own. */
  readonly eventId: string
  readonly type: string | null
  readonly aggregate: readonly [type: string, id: string] | null
  /** Decimal text. */
  readonly revision: string | null
  readonly attempts: number
  readonly reason: string | null
  /** The message in its broker. */
  readonly origin: string
  /** True when it was put back and waits for a process of the consumer. */
  readonly retrying: boolean
  /** ISO 8601. */
  readonly diedAt: string
}

export interface ConsumerDeadLetterPage {
  readonly items: readonly ConsumerDeadLetter[]
  /** Where the next page starts; null on the last one. */
  readonly next: string | null
}

const list = `
  SELECT consumer, event_id, event_type, aggregate_type, aggregate_id, revision::text, attempts, error, origin,
         state = 'retry' AS retrying,
         to_char(changed_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS died
  FROM "waybill".consumer_dead_letters
  WHERE ($1::text IS NULL OR consumer = $1::text)
    AND ($2::text IS NULL OR (consumer, changed_at, event_id) > ($2::text, $3::text::timestamptz, $4::text))
  ORDER BY consumer, changed_at, event_id LIMIT $5::int`

/**
 * One page of the dead letters of one consumer, or of all. Index consumer_messages_dead.
 *
 * @throws USAGE_INVALID
 */
export async function listConsumerDeadLetters(
  db: Connection,
  schema: string,
  options: { consumer?: string; limit?: number; after?: string } = {},
): Promise<ConsumerDeadLetterPage> {
  const { consumer, limit = 50, after } = options
  if (consumer !== undefined) checkText('consumer', consumer, 100)
  const start = after === undefined ? [null, null, null] : decode(after)
  const values = [consumer ?? null, ...start, checkLimit(limit) + 1]
  const { rows } = await db.query(inSchema(list, schema), values)
  const items = rows.slice(0, limit).map(toDeadLetter)
  const last = items.at(-1)
  return {
    items,
    next:
      rows.length > limit && last !== undefined ? encode([last.consumer, last.diedAt, last.eventId]) : null,
  }
}

function toDeadLetter(row: Record<string, unknown>): ConsumerDeadLetter {
  const type = row['aggregate_type'] as string | null
  return {
    consumer: row['consumer'] as string,
    eventId: row['event_id'] as string,
    type: row['event_type'] as string | null,
    aggregate: type === null ? null : [type, row['aggregate_id'] as string],
    revision: row['revision'] as string | null,
    attempts: row['attempts'] as number,
    reason: row['error'] as string | null,
    origin: row['origin'] as string,
    retrying: row['retrying'] as boolean,
    diedAt: row['died'] as string,
  }
}

function encode(place: readonly string[]): string {
  return Buffer.from(JSON.stringify(place)).toString('base64url')
}

function decode(cursor: string): string[] {
  try {
    const place: unknown = JSON.parse(Buffer.from(cursor, 'base64url').toString())
    if (Array.isArray(place) && place.length === 3 && place.every((part) => typeof part === 'string'))
      return place
  } catch {
    // Told below.
  }
  throw usageInvalid(`the cursor ${show(cursor)} is not one of ours, use the "next" of the page before`)
}

export interface ConsumerDeadLetterAction extends Pick<
  DeadLetterActionOptions,
  'decidedBy' | 'signal' | 'timeLimitMs'
> {
  readonly consumer: string
  /** Ids of events. Default: all dead letters of the consumer. */
  readonly ids?: readonly string[]
  /** Also those that later events of their aggregate have overtaken. Default: false. */
  readonly allowOlder?: boolean
  readonly reason?: string
  readonly onProgress?: (changed: number) => void
}

export interface ConsumerDeadLetterReport {
  readonly changed: number
  /** Ids that later events of their aggregate have overtaken: left alone. */
  readonly overtaken: readonly string[]
  /** Ids that are no dead letters of this consumer. */
  readonly notDead: readonly string[]
  /** False when it was stopped early. */
  readonly complete: boolean
}

const chunk = 500

/** $1 consumer, $2 ids or null, $3 who, $4 why, $5 allow older. */
const chosen = `
  chosen AS (
    SELECT m.consumer, m.event_id, m.aggregate_type, m.aggregate_id, m.revision, m.error, m.attempts
    FROM "waybill".consumer_messages AS m
    WHERE m.consumer = $1::text AND m.state = 'dead' AND ($2::text[] IS NULL OR m.event_id = ANY ($2::text[]))
      AND ($5::boolean OR NOT EXISTS (
        SELECT FROM "waybill".processed_events AS p
        WHERE p.consumer = m.consumer AND p.processed_at > m.changed_at AND p.result = 'applied'
          AND p.aggregate_type = m.aggregate_type AND p.aggregate_id = m.aggregate_id))
    ORDER BY m.changed_at, m.event_id LIMIT ${chunk} FOR UPDATE OF m SKIP LOCKED
  )`

const decided = (action: string) => `
  decided AS (
    INSERT INTO "waybill".decisions (action, aggregate_type, aggregate_id, revision, decided_by, reason, details)
    SELECT '${action}', aggregate_type, aggregate_id, revision, $3::text, $4::text,
           jsonb_build_object('consumer', consumer, 'eventId', event_id, 'attempts', attempts, 'error', left(error, 500))
    FROM chosen
  )`

const retry = `
  WITH ${chosen}, ${decided('consumer_retried')}
  UPDATE "waybill".consumer_messages AS m
  SET state = 'retry', attempts = 0, crashes = 0, changed_at = clock_timestamp()
  FROM chosen WHERE m.consumer = chosen.consumer AND m.event_id = chosen.event_id
  RETURNING m.event_id`

/** The result in processed_events stays: the event is not tried again when it comes again. */
const discard = `
  WITH ${chosen}, ${decided('consumer_discarded')}
  DELETE FROM "waybill".consumer_messages AS m USING chosen
  WHERE m.consumer = chosen.consumer AND m.event_id = chosen.event_id
  RETURNING m.event_id`

const states = `
  SELECT event_id, state FROM "waybill".consumer_messages
  WHERE consumer = $1::text AND event_id = ANY ($2::text[])`

const stillDead = `
  SELECT event_id FROM "waybill".consumer_messages
  WHERE consumer = $1::text AND state = 'dead' ORDER BY changed_at LIMIT 1000`

/**
 * Puts dead letters of a consumer back: a process of that consumer takes them within its `pollIntervalMs`. In chunks, each
 * a transaction of its own.
 *
 * @throws USAGE_INVALID
 */
export function retryConsumerDeadLetters(
  db: Connection,
  schema: string,
  action: ConsumerDeadLetterAction,
): Promise<ConsumerDeadLetterReport> {
  const { reason = 'retried' } = action
  return act(db, schema, retry, { ...action, reason }, action.allowOlder === true)
}

/**
 * Gives dead letters of a consumer up: their messages are removed, the results stay.
 *
 * @throws USAGE_INVALID without a reason
 */
export function discardConsumerDeadLetters(
  db: Connection,
  schema: string,
  action: ConsumerDeadLetterAction & { readonly reason: string },
): Promise<ConsumerDeadLetterReport> {
  return act(db, schema, discard, action, true)
}

async function act(
  db: Connection,
  schema: string,
  statement: string,
  action: ConsumerDeadLetterAction & { readonly reason: string },
  allowOlder: boolean,
): Promise<ConsumerDeadLetterReport> {
  const consumer = checkText('consumer', action.consumer, 100)
  const ids = action.ids?.map((id) => checkText('an event id', id)) ?? null
  const who = checkText('decidedBy', action.decidedBy ?? currentUser(), 200)
  const values = [consumer, ids, who, checkReason(action.reason), allowOlder]
  const done = new Set<string>()
  const deadline = performance.now() + (action.timeLimitMs ?? Infinity)
  const isOver = () => action.signal?.aborted === true || (done.size > 0 && performance.now() > deadline)
  let last = chunk
  while (last > 0 && !isOver()) {
    const { rows } = await db.query<{ event_id: string }>(inSchema(statement, schema), values)
    for (const row of rows) done.add(row.event_id)
    last = rows.length
    action.onProgress?.(done.size)
  }
  const complete = last === 0
  // Of a run that was stopped early nobody knows yet why the rest was left.
  const left = complete ? await leftAlone(db, schema, consumer, ids, done) : { overtaken: [], notDead: [] }
  return { changed: done.size, ...left, complete }
}

async function leftAlone(
  db: Connection,
  schema: string,
  consumer: string,
  ids: readonly string[] | null,
  done: ReadonlySet<string>,
): Promise<{ overtaken: readonly string[]; notDead: readonly string[] }> {
  if (ids === null) {
    const { rows } = await db.query<{ event_id: string }>(inSchema(stillDead, schema), [consumer])
    return { overtaken: rows.map((row) => row.event_id), notDead: [] }
  }
  const { rows } = await db.query<{ event_id: string; state: string }>(inSchema(states, schema), [
    consumer,
    ids,
  ])
  const dead = new Set(rows.filter(({ state }) => state === 'dead').map((row) => row.event_id))
  const rest = [...new Set(ids)].filter((id) => !done.has(id))
  return { overtaken: rest.filter((id) => dead.has(id)), notDead: rest.filter((id) => !dead.has(id)) }
}
