import type { Facts, Named } from './collect.ts'
import type { ConsumerFact, ConsumerResult, ProjectionFact } from './facts/consumer.ts'
import { type Fact, valueOf } from './facts/fact.ts'
import type { DestinationFact } from './facts/destinations.ts'
import type { IntentRow } from './facts/intent.ts'
import type { ReadFact } from './facts/read.ts'
import type { EventState } from '../types.ts'
import type { TraceKey } from './key.ts'
import type { Publication } from './publication.ts'
import type {
  ConsumerSign,
  DestinationSign,
  IntentSign,
  ProjectionSign,
  ReadSign,
  Signs,
  SourceSign,
} from './signs.ts'

/** What of a publication decides how its facts are read. */
export interface Yardstick {
  readonly pendingLimitMs: number
  readonly source: { readonly keeps: Publication['source']['keeps'] }
}

/** What the facts of one publication say, word by word; of several consumers, projections and reads the worst one. */
export function signsOf(facts: Facts, key: TraceKey, { pendingLimitMs, source }: Yardstick): Signs {
  const newest = valueOf(facts.source)?.newestRevision
  // Without a revision there is no fact of the owners that are asked for one.
  const revision = key.revision ?? 0n
  const consumers = facts.consumers.map(consumerSign)
  const projections = facts.projections.map(({ fact }) => projectionSign(fact, revision, newest))
  const { row = null, relayedRevision = null } = valueOf(facts.intent) ?? {}
  const told = { state: row?.state ?? null, relayedRevision, consumers, projections }
  const intent = facts.intent.status === 'known' ? intentSignOf(told, revision) : 'unknown'
  const consumer = worst(consumerWorst, consumers)
  return {
    source: sourceSign(facts, revision, source.keeps),
    intent,
    destination: destinationSignOf(valueOf(facts.destinations) ?? []),
    consumer,
    projection: worst(projectionWorst, projections),
    read: worst(
      readWorst,
      facts.reads.map(({ fact }) => readSign(fact, revision)),
    ),
    late: isLate(row, { intent, consumer, pendingLimitMs }),
    twice: twiceSign(facts),
  }
}

export function worst<Sign>(order: readonly Sign[], signs: readonly Sign[]): Sign {
  return order.find((sign) => signs.includes(sign)) ?? order.at(-1)!
}

function sourceSign({ source }: Facts, revision: bigint, keeps: 'latest' | 'history'): SourceSign {
  if (source.status !== 'known') return source.status === 'unknown' ? 'unknown' : 'unconfigured'
  const { holdsRevision, newestRevision } = source.value
  if (holdsRevision) return 'here'
  if (newestRevision === null) return 'missing'
  if (BigInt(newestRevision) < revision) return 'behind'
  return keeps === 'latest' ? 'newer' : 'missing'
}

export interface IntentTold {
  /** Of its row; null: there is none. */
  readonly state: EventState | null
  /** The newest revision that is known to be handed over. */
  readonly relayedRevision: string | null
  readonly consumers: readonly ConsumerSign[]
  readonly projections: readonly ProjectionSign[]
}

/** Without a row: retention removes one only after the head knows that it, or a later one, was handed over. */
export function intentSignOf(
  { state, relayedRevision, consumers, projections }: IntentTold,
  revision: bigint,
): IntentSign {
  const relayed = relayedRevision === null ? -1n : BigInt(relayedRevision)
  if (state === null) return relayed === revision ? 'relayed' : relayed > revision ? 'aged-out' : 'none'
  if (state === 'published') return 'relayed'
  if (state === 'dead') return relayed > revision ? 'passed' : 'dead'
  if (state === 'blocked' || state === 'discarded') return state
  const hasArrived = consumers.some((sign) => arrived.has(sign)) || projections.includes('current')
  return hasArrived ? 'unrecorded' : 'pending'
}

const arrived: ReadonlySet<ConsumerSign> = new Set(['applied', 'stale', 'rejected', 'parked'])

export function destinationSignOf(destinations: readonly DestinationFact[]): DestinationSign {
  const told = destinations.filter(({ state }) => state !== 'unknown')
  if (told.length === 0) return 'unknown'
  return told.every(({ state }) => state === 'down') ? 'down' : 'up'
}

/** Of what was handed over, and does not wait for a consumer, the time until then; else the time that it waits. */
export function isLate(
  row: Pick<IntentRow, 'ageMs' | 'relayedAfterMs'> | null,
  { intent, consumer, pendingLimitMs }: Pick<Signs, 'intent' | 'consumer'> & { pendingLimitMs: number },
): boolean {
  const waits = consumer === 'silent'
  if (row === null) return waits && (intent === 'relayed' || intent === 'aged-out')
  return (waits || row.relayedAfterMs === null ? row.ageMs : row.relayedAfterMs) > pendingLimitMs
}

export const consumerWorst: readonly ConsumerSign[] = [
  ...(['rejected', 'parked', 'silent', 'unknown', 'stale', 'applied', 'unconfigured'] as const),
]

function consumerSign({ fact }: Named<ConsumerFact>): ConsumerSign {
  if (fact.status !== 'known') return fact.status === 'unknown' ? 'unknown' : 'unconfigured'
  const { result, handles } = fact.value
  return result === null && handles === false ? 'unconfigured' : consumerSignOf(result)
}

export function consumerSignOf(result: ConsumerResult | null): ConsumerSign {
  return result ?? 'silent'
}

export const projectionWorst: readonly ProjectionSign[] = [
  ...(['beyond', 'missing', 'behind', 'unknown', 'current', 'newer', 'unconfigured'] as const),
]

function projectionSign(
  fact: Fact<ProjectionFact>,
  revision: bigint,
  newest: string | null | undefined,
): ProjectionSign {
  if (fact.status !== 'known') return fact.status === 'unknown' ? 'unknown' : 'unconfigured'
  return projectionSignOf(fact.value, revision, newest ?? null)
}

/** `newest` is the source's newest revision, null where it is not known. */
export function projectionSignOf(
  { revision: shown, rows }: Pick<ProjectionFact, 'revision' | 'rows'>,
  revision: bigint,
  newest: string | null,
): ProjectionSign {
  if (shown === null || rows === 0) return 'missing'
  if (BigInt(shown) < revision) return 'behind'
  if (newest !== null && BigInt(shown) > BigInt(newest)) return 'beyond'
  return BigInt(shown) === revision ? 'current' : 'newer'
}

export const readWorst: readonly ReadSign[] = [
  ...(['missing', 'behind', 'cached', 'unknown', 'current', 'unconfigured'] as const),
]

export function readSign(fact: Fact<ReadFact>, revision: bigint): ReadSign {
  if (fact.status !== 'known') return fact.status === 'unknown' ? 'unknown' : 'unconfigured'
  const { httpStatus, revision: shown, headers } = fact.value
  if (shown !== null)
    return BigInt(shown) >= revision ? 'current' : isFromCache(headers) ? 'cached' : 'behind'
  if (httpStatus === 404 || httpStatus === 410) return 'missing'
  return 'unknown'
}

/** `Age` is set by caches only; RFC 9111, section 5.1. */
function isFromCache(headers: Readonly<Record<string, string>>): boolean {
  const age = Number(headers['age'])
  const told = `${headers['x-cache'] ?? ''} ${headers['cf-cache-status'] ?? ''}`
  return (Number.isFinite(age) && age > 0) || /\bhit\b/i.test(told)
}

function twiceSign({ consumers, projections }: Facts): Signs['twice'] {
  if (consumers.some(({ fact }) => (valueOf(fact)?.applied ?? 0) > 1)) return 'yes'
  if (projections.some(({ fact }) => (valueOf(fact)?.rows ?? 0) > 1)) return 'yes'
  return consumers.some(({ fact }) => fact.status === 'unknown') ? 'unknown' : 'no'
}
