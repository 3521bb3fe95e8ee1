import { inSchema } from '../database/identifiers.ts'
import { WaybillError } from '../errors.ts'
import { checkEventId, checkText } from '../input.ts'
import { show } from '../wording.ts'
import { intentKey } from '../intent-key.ts'
import { type FactSources, type Facts, collectFacts } from './collect.ts'
import {
  type Answers,
  type Gap,
  actionText,
  answersOf,
  causeTexts,
  gapsOf,
  stateLabel,
  symptomTexts,
} from './explain.ts'
import { valueOf } from './facts/fact.ts'
import { findSource } from './facts/source.ts'
import { type EventKey, type PublicationKey, type TraceKey, checkRevision, checkScope } from './key.ts'
import type { Publication } from './publication.ts'
import { safeCommand } from './safe-command.ts'
import { type Yardstick, signsOf } from './signs-of.ts'
import type { Signs } from './signs.ts'
import { type Owner, type Symptom, judgeEvent, judgePublication } from './verdict.ts'

/** What is asked for: a key, or the newest revision when `revision` is left out. */
export interface TraceRequest {
  readonly type: string
  readonly id: string
  readonly revision?: string | bigint
  readonly scope?: string
}

/** The causal chain of one publication, and what follows from it. The form of `waybill trace --json`. */
export interface Trace {
  readonly aggregate: { readonly type: string; readonly id: string }
  /** Decimal text; null: the event has none, so that it is no publication. */
  readonly revision: string | null
  readonly scope: string
  /** For people: `n-42:7`; null without a revision. */
  readonly intentKey: string | null
  /** The event, where it is known by its id alone since it has no revision; otherwise null. */
  readonly event: { readonly id: string; readonly type: string } | null
  /** True when the aggregate type has a publication in the configuration. */
  readonly configured: boolean
  /** What could not be asked, and why, in one sentence: no publication is configured, or there is no revision. */
  readonly notice: string | null
  readonly tracedAt: string
  readonly facts: Facts
  readonly gaps: readonly Gap[]
  /** What the facts say, a word for each owner. */
  readonly signs: Signs
  readonly verdict: {
    /** `note-only`, `intent-pending`, `intent-dead`, `intent-relayed`, `projection-current`, `not-saved`, `unknown`. */
    readonly state: string
    readonly symptom: Symptom | null
    readonly symptomText: string | null
    readonly cause: string
    readonly causeText: string
    /** Who acts next; null when nobody has to. */
    readonly owner: Owner | null
    /** The team behind that role, as configured. */
    readonly team: string | null
    readonly action: string
    /** Safe to run as it stands. */
    readonly command: string
  }
  readonly answers: Answers
}

export type Publications = ReadonlyMap<string, Publication>

/** Collects the facts of one publication and judges them. @throws USAGE_INVALID, REVISION_UNKNOWN */
export async function tracePublication(
  sources: FactSources,
  publications: Publications,
  request: TraceRequest | TraceKey,
): Promise<Trace> {
  const publication = publications.get(request.type) ?? null
  const key = request.revision === null ? request : await keyOf(sources, publication, request)
  const facts = await collectFacts(sources, key, publication)
  const signs = signsOf(facts, key, publication ?? unconfigured)
  const verdict = key.revision === null ? judgeEvent(signs) : judgePublication(signs)
  return {
    aggregate: { type: key.type, id: key.id },
    revision: key.revision === null ? null : String(key.revision),
    scope: key.scope,
    intentKey: key.revision === null ? null : intentKey(key),
    event: key.revision === null ? { id: key.eventId, type: key.eventType } : null,
    configured: publication !== null,
    notice: noticeOf(key, publication),
    tracedAt: new Date().toISOString(),
    facts,
    gaps: gapsOf(facts, key),
    signs,
    verdict: {
      state: stateLabel(verdict.state, key.type),
      symptom: verdict.symptom,
      symptomText: verdict.symptom === null ? null : symptomTexts[verdict.symptom],
      cause: verdict.cause,
      causeText: causeTexts[verdict.cause]!,
      owner: verdict.owner,
      team: verdict.owner === null ? null : (publication?.owners[verdict.owner] ?? null),
      action: actionText(verdict.action),
      command: safeCommand(verdict, key, facts, publication),
    },
    answers: answersOf(facts, key),
  }
}

/** False when no owner that could be asked knows the aggregate. */
export function tellsAnything({ facts }: Pick<Trace, 'facts'>): boolean {
  const intent = valueOf(facts.intent)
  return (
    [intent?.row, intent?.headRevision, valueOf(facts.source)?.newestRevision].some((told) => told != null) ||
    facts.consumers.some(({ fact }) => valueOf(fact)?.result != null) ||
    facts.projections.some(({ fact }) => valueOf(fact)?.revision != null)
  )
}

const unconfigured: Yardstick = { pendingLimitMs: 30_000, source: { keeps: 'latest' } }

function noticeOf({ type, revision }: TraceKey, publication: Publication | null): string | null {
  const configure = `no publication ${show(type)} is configured`
  if (publication === null && revision === null)
    return `The event has no revision and ${configure}: its way is known from the outbox to the consumers of this database, and no further.`
  if (publication === null)
    return `There is no publication ${show(type)} in the configuration: its source, projections and public reads cannot be asked, and of the consumers only those of this database.`
  if (revision !== null) return null
  return `The event has no revision, so it is no publication: the source, the projections and the public reads of ${show(type)} have nothing to compare with it.`
}

async function keyOf(
  sources: FactSources,
  publication: Publication | null,
  { type, id, revision, scope }: TraceRequest,
): Promise<TraceKey> {
  const place = {
    type: checkText('aggregate type', type),
    id: checkText('aggregate id', id),
    scope: checkScope(scope),
  }
  if (revision !== undefined) return { ...place, revision: checkRevision(revision) }
  return { ...place, revision: await newestRevision(sources, publication, place) }
}

/** Of the source where it is configured, otherwise the newest that was ever intended. @throws what the source says */
async function newestRevision(
  { outbox }: FactSources,
  publication: Publication | null,
  { type, id, scope }: Omit<PublicationKey, 'revision'>,
): Promise<bigint> {
  const { rows } = await outbox.db.query<{ revision: string }>(
    inSchema(
      `SELECT h.revision::text AS revision FROM "waybill".publication_heads AS h
       WHERE h.aggregate_type = $1::text AND h.aggregate_id = $2::text AND h.intent_scope = $3::text`,
      outbox.schema,
    ),
    [type, id, scope],
  )
  const known = rows.map((row) => BigInt(row.revision))
  if (publication !== null) {
    try {
      const { newestRevision: newest } = await findSource(outbox.db, publication, id, null)
      if (newest !== null) known.push(BigInt(newest))
    } catch (error) {
      // With a revision to go on the trace says it among its gaps; without one it is the answer.
      if (known.length === 0) throw error
    }
  }
  const newest = known.reduce<bigint | undefined>(
    (most, next) => (most === undefined || next > most ? next : most),
    undefined,
  )
  if (newest !== undefined) return newest
  throw new WaybillError(
    'REVISION_UNKNOWN',
    `no revision of ${type} ${JSON.stringify(id)} is known${publication === null ? `, and no publication ${JSON.stringify(type)} is configured` : ''}: name the revision or the event, or check the id`,
  )
}

interface EventRow extends Omit<EventKey, 'revision'> {
  readonly revision: string | null
}

/** The key of an event: of its publication, or without a revision of itself. @throws USAGE_INVALID, EVENT_NOT_FOUND */
export async function keyOfEvent({ outbox }: FactSources, eventId: string): Promise<TraceKey> {
  const id = checkEventId(eventId)
  const { rows } = await outbox.db.query<EventRow>(
    inSchema(
      `SELECT e.aggregate_type AS "type", e.aggregate_id AS "id", e.revision::text AS "revision",
              e.intent_scope AS "scope", e.id::text AS "eventId", e.event_type AS "eventType"
       FROM "waybill".outbox_events AS e WHERE e.id = $1::text::uuid`,
      outbox.schema,
    ),
    [id],
  )
  if (rows[0] === undefined) throw new WaybillError('EVENT_NOT_FOUND', `no event has the id ${id}`)
  const { revision, ...event } = rows[0]
  const { type, scope } = event
  return revision === null
    ? { ...event, revision }
    : { type, id: event.id, scope, revision: BigInt(revision) }
}
