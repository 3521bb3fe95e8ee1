import { inSchema } from '../database/identifiers.ts'
import { WaybillError } from '../errors.ts'
import { checkEventId, checkText } from '../input.ts'
import { intentKey } from '../intent-key.ts'
import { type FactSources, type Facts, collectFacts } from './collect.ts'
import {
  type Answers,
  type Gap,
  actionText,
  answersOf,
  causeTexts,
  gapsOf,
  safeCommand,
  stateLabel,
  symptomTexts,
} from './explain.ts'
import { findSource } from './facts/source.ts'
import { type PublicationKey, checkRevision, checkScope } from './key.ts'
import type { Publication } from './publication.ts'
import { signsOf } from './signs-of.ts'
import type { Signs } from './signs.ts'
import { type Owner, type Symptom, judgePublication } from './verdict.ts'

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
  /** Decimal text. */
  readonly revision: string
  readonly scope: string
  /** For people: `n-42:7`. */
  readonly intentKey: string
  /** True when the aggregate type has a publication in the configuration. */
  readonly configured: boolean
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
  request: TraceRequest,
): Promise<Trace> {
  const publication = publications.get(request.type) ?? null
  const key = await keyOf(sources, publication, request)
  const facts = await collectFacts(sources, key, publication)
  const signs = signsOf(facts, key, publication?.pendingLimitMs ?? defaultPendingLimitMs)
  const verdict = judgePublication(signs)
  return {
    aggregate: { type: key.type, id: key.id },
    revision: String(key.revision),
    scope: key.scope,
    intentKey: intentKey(key),
    configured: publication !== null,
    tracedAt: new Date().toISOString(),
    facts,
    gaps: gapsOf(facts),
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
      command: safeCommand(verdict, key, facts),
    },
    answers: answersOf(facts, key),
  }
}

const defaultPendingLimitMs = 30_000

async function keyOf(
  sources: FactSources,
  publication: Publication | null,
  { type, id, revision, scope }: TraceRequest,
): Promise<PublicationKey> {
  const place = {
    type: checkText('aggregate type', type),
    id: checkText('aggregate id', id),
    scope: checkScope(scope),
  }
  if (revision !== undefined) return { ...place, revision: checkRevision(revision) }
  return { ...place, revision: await newestRevision(sources, publication, place) }
}

/** Of the source where it is configured, otherwise the newest that was ever intended. */
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
    const source = await findSource(outbox.db, publication, id, null).catch(() => undefined)
    if (source?.newestRevision != null) known.push(BigInt(source.newestRevision))
  }
  const newest = known.reduce<bigint | undefined>(
    (most, next) => (most === undefined || next > most ? next : most),
    undefined,
  )
  if (newest !== undefined) return newest
  throw new WaybillError(
    'REVISION_UNKNOWN',
    `no revision of ${type} ${JSON.stringify(id)} is known${publication === null ? `, and no publication ${JSON.stringify(type)} is configured` : ''}: name the revision, or check the id`,
  )
}

/** The key of an event. @throws USAGE_INVALID, EVENT_NOT_FOUND, REVISION_UNKNOWN */
export async function keyOfEvent({ outbox }: FactSources, eventId: string): Promise<TraceRequest> {
  const id = checkEventId(eventId)
  const { rows } = await outbox.db.query<{
    type: string
    id: string
    revision: string | null
    scope: string
  }>(
    inSchema(
      `SELECT e.aggregate_type AS type, e.aggregate_id AS id, e.revision::text AS revision, e.intent_scope AS scope
       FROM "waybill".outbox_events AS e WHERE e.id = $1::text::uuid`,
      outbox.schema,
    ),
    [id],
  )
  const found = rows[0]
  if (found === undefined) throw new WaybillError('EVENT_NOT_FOUND', `no event has the id ${id}`)
  if (found.revision === null) {
    throw new WaybillError(
      'REVISION_UNKNOWN',
      `the event ${id} has no revision, so it is no publication: look at it with "waybill list --aggregate ${found.type} ${found.id}"`,
    )
  }
  return { ...found, revision: found.revision }
}
