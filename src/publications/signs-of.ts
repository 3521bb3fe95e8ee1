import type { Facts, Named } from './collect.ts'
import type { ConsumerFact, ConsumerResult, ProjectionFact } from './facts/consumer.ts'
import { type Fact, valueOf } from './facts/fact.ts'
import type { ReadFact } from './facts/read.ts'
import type { EventState } from '../types.ts'
import type { TraceKey } from './key.ts'
import type { ConsumerSign, IntentSign, ProjectionSign, ReadSign, Signs, SourceSign } from './signs.ts'

/** What the facts of one publication say, word by word; of several consumers, projections and reads the worst one. */
export function signsOf(facts: Facts, key: TraceKey, pendingLimitMs: number): Signs {
  const intent = intentSign(facts, key)
  const row = valueOf(facts.intent)?.row ?? null
  const newest = valueOf(facts.source)?.newestRevision
  // Without a revision there is no fact of the owners that are asked for one.
  const revision = key.revision ?? 0n
  const projections = facts.projections.map(({ fact }) => projectionSign(fact, revision, newest))
  return {
    source: sourceSign(facts, revision),
    intent,
    consumer: worst(consumerWorst, facts.consumers.map(consumerSign)),
    projection: worst(projectionWorst, projections),
    read: worst(
      readWorst,
      facts.reads.map(({ fact }) => readSign(fact, revision)),
    ),
    late: row === null || row.ageMs > pendingLimitMs,
    twice: twiceSign(facts),
  }
}

export function worst<Sign>(order: readonly Sign[], signs: readonly Sign[]): Sign {
  return order.find((sign) => signs.includes(sign)) ?? order.at(-1)!
}

function sourceSign({ source }: Facts, revision: bigint): SourceSign {
  if (source.status !== 'known') return source.status === 'unknown' ? 'unknown' : 'unconfigured'
  const { holdsRevision, newestRevision } = source.value
  if (holdsRevision) return 'here'
  if (newestRevision === null) return 'missing'
  return BigInt(newestRevision) > revision ? 'newer' : 'behind'
}

function intentSign({ intent }: Facts, { revision }: TraceKey): IntentSign {
  if (intent.status !== 'known') return 'unknown'
  return intentSignOf(intent.value.row?.state ?? null, intent.value.relayedRevision, revision ?? 0n)
}

/** Without a row: retention removes one only after the head knows that it, or a later one, was handed over. */
export function intentSignOf(
  state: EventState | null,
  relayedRevision: string | null,
  revision: bigint,
): IntentSign {
  if (state === null)
    return relayedRevision !== null && BigInt(relayedRevision) >= revision ? 'aged-out' : 'none'
  if (state === 'published') return 'relayed'
  return state === 'retrying' ? 'pending' : state
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
