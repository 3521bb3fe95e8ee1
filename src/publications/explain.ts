import type { Facts, Named } from './collect.ts'
import type { Fact } from './facts/fact.ts'
import { valueOf } from './facts/fact.ts'
import { intentKey } from '../intent-key.ts'
import type { PublicationKey, TraceKey } from './key.ts'
import type { Action, Owner, PublicationState, Symptom, Verdict } from './verdict.ts'

/** The state as it is printed: `source-only` bears the publication's name. */
export function stateLabel(state: PublicationState, type: string): string {
  return state === 'source-only' ? `${type}-only` : state
}

export const symptomTexts: Readonly<Record<Symptom, string>> = {
  'intent-missing': 'the canonical revision is there, the intent is not',
  'intent-overdue': 'the intent is pending for longer than it may be',
  'projection-old': 'the event was handed over, the projection is old',
  'applied-twice': 'one revision was applied twice',
  'public-read-old': 'the public read shows old text',
}

/** What each cause means, in one sentence. */
export const causeTexts: Readonly<Record<string, string>> = {
  'intent-unknown': 'The outbox could not be read, so nothing is known of the intent.',
  'not-saved': 'The source does not hold this revision, and nobody decided to publish it.',
  'no-intent':
    'The revision was saved without a decision to publish it: two writes in two transactions, or an old write path.',
  overtaken:
    'The source keeps the latest row only and has passed this revision: whether it should have been published cannot be told, and the newer one takes its place.',
  'source-unknown': 'There is no intent, and whether the revision was saved is not known.',
  'not-yet-relayed': 'The decision is committed and waits for the relay; it is not lost.',
  'relay-late':
    'The relay has not handed it over within the time that the publication allows: it does not read, or its tries fail.',
  'behind-blocked-event': 'An earlier event of the same aggregate holds it back; order is kept.',
  'dead-letter': 'The relay gave the event up; the reason stands with it.',
  discarded: 'Somebody decided to give this event up.',
  'no-condition': 'The consumer has no condition that makes applying a revision a second time do nothing.',
  'consumer-rejected': 'The consumer refused the event.',
  'parked-behind-gap': 'The consumer waits for an earlier revision that has not arrived.',
  'no-receipt-yet': 'It was handed over; the consumer has not answered for it yet.',
  'no-receipt': 'It was handed over, and no consumer has answered for it within the time.',
  'applied-but-projection-old':
    'The consumer is done with it, and the projection shows less: its row was overwritten, removed, or never written.',
  'projection-unknown': 'The consumer is done with it; what the projection holds is not known.',
  'consumer-unknown': 'It was handed over; what became of it on the other side is not known.',
  'consumer-done':
    'The consumers are done with it; an event without a revision cannot be looked for beyond them.',
  'projection-beyond-source':
    'The projection holds a revision that the source does not have: one of them was restored from a backup.',
  'read-shows-it': 'The public read shows this revision or a later one.',
  visible: 'The projection and every public read show this revision or a later one.',
  'read-unknown': 'The projection holds it; what readers see is not known.',
  'read-elsewhere':
    'The projection holds it, the public read shows less: it reads another copy, another scope, or filters it out.',
  cached: 'The projection holds it, the public read shows less and says that it comes from a cache.',
  'no-rule': 'The facts fit no rule.',
}

const actionTexts: Readonly<Record<Action, string>> = {
  none: 'Nothing is to be done.',
  wait: 'Wait, and look again.',
  'find-fact': 'Find the missing fact first; do not repeat anything meanwhile.',
  save: 'Look whether the write was made at all; publishing needs a saved revision.',
  'decide-intent':
    'Do not replay. Find the write path, decide whether this revision may be published, and record the decision.',
  'repair-relay': 'Remove what keeps the relay from it; it then goes out by itself. No new revision.',
  'release-blocker': 'Deal with the event that holds it back; the others follow in order.',
  'retry-dead': 'Remove the reason, then retry exactly this event.',
  'repair-consumer': 'Mend the consumer, then replay exactly this key; the replay changes nothing twice.',
  'retry-consumer': 'Mend the consumer, then put exactly this event back there.',
  'ask-consumer':
    'Find out whether the consumer runs, and whether it reads what the relay hands over; its next delivery changes nothing twice.',
  'find-gap':
    'Find the revision that is missing before it. If it will never come, "waybill consumer release" lets the projection go on without it, with a reason.',
  'rebuild-projection':
    'Rebuild what the projection shows of it, from the source; a replay changes nothing, since the consumer is done with this event.',
  'make-conditional':
    'Make applying conditional by the key. Remove the duplicate only by a rule that its owner confirms.',
  'repair-read': 'Find out what this read really reads; show the delay, or read the canonical source.',
  'restore-source': 'Find out which side was restored before anything is repeated.',
}

export function actionText(action: Action): string {
  return actionTexts[action]
}

/** One command that is safe to run: it looks, or it repeats exactly this key, or it asks for a reason. */
export function safeCommand(verdict: Verdict, key: TraceKey, facts: Facts): string {
  const row = valueOf(facts.intent)?.row ?? null
  const place = `${quoted(key.type)} ${quoted(key.id)}`
  const scope = key.scope === '' ? '' : ` --scope ${quoted(key.scope)}`
  const which = key.revision === null ? key.eventId : `${place} ${key.revision}${scope}`
  switch (verdict.action) {
    case 'decide-intent':
      return `waybill intent create ${which} --reason "…"`
    case 'retry-dead':
      return row === null ? `waybill dead list` : `waybill dead retry ${row.eventId}`
    case 'release-blocker':
      return row?.blockedBy == null ? 'waybill status' : `waybill trace ${row.blockedBy}`
    case 'repair-relay':
    case 'ask-consumer':
      return 'waybill status'
    case 'retry-consumer':
      return retryCommand(facts)
    case 'find-gap':
      return key.revision === null
        ? `waybill trace ${which}`
        : `waybill trace ${place} ${missingBefore(key, facts)}${scope}`
    case 'rebuild-projection': {
      const name = oldProjection(facts, key)
      return name === undefined
        ? `waybill trace ${which}`
        : `waybill projection rebuild ${quoted(name)} --aggregate ${place}`
    }
    case 'repair-consumer':
      return `waybill replay ${which} --reason "…"`
    default:
      return `waybill trace ${which}`
  }
}

function retryCommand({ consumers }: Facts): string {
  for (const { name, fact } of consumers) {
    const { result, eventId } = valueOf(fact) ?? {}
    if (result === 'rejected' && eventId != null)
      return `waybill consumer dead retry ${quoted(eventId)} --consumer ${quoted(name)}`
  }
  return 'waybill consumer dead list'
}

/** The first revision that some projection lacks; where no projection tells, the one before. */
function missingBefore({ revision }: PublicationKey, { projections }: Facts): bigint {
  const next = projections
    .map(({ fact }) => valueOf(fact))
    .map((held) => held?.skippedTo ?? held?.revision)
    .filter((held) => held != null)
    .map((held) => BigInt(held) + 1n)
    .filter((missing) => missing < revision)
  if (next.length > 0) return next.reduce((least, one) => (one < least ? one : least))
  return revision > 0n ? revision - 1n : revision
}

/** The projection that shows less than this revision. */
function oldProjection({ projections }: Facts, { revision }: TraceKey): string | undefined {
  if (revision === null) return undefined
  return projections.find(({ fact }) => {
    const shown = valueOf(fact)
    if (shown === undefined) return false
    return shown.revision === null || BigInt(shown.revision) < revision || shown.rows === 0
  })?.name
}

/** As a shell reads it. */
function quoted(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`
}

/** A fact that is missing, by name, and who has to find it. */
export interface Gap {
  readonly name: string
  readonly owner: Owner
  readonly reason: string
}

export function gapsOf(facts: Facts, { revision }: Pick<TraceKey, 'revision'>): readonly Gap[] {
  const gaps: Gap[] = []
  const without = revision === null ? 'an event without a revision cannot be looked for there' : undefined
  const look = (name: string, owner: Owner, fact: Fact<unknown>) => {
    if (fact.status === 'unknown') gaps.push({ name, owner, reason: fact.reason })
    if (fact.status === 'not-configured') gaps.push({ name, owner, reason: without ?? 'not configured' })
  }
  const lookAtAll = (
    name: string,
    owner: Owner,
    all: readonly Named<unknown>[],
    reason = 'not configured',
  ) => {
    if (all.length === 0) gaps.push({ name, owner, reason })
    for (const one of all) look(`${name} ${one.name}`, owner, one.fact)
  }
  look('source', 'service', facts.source)
  look('answer of the write API', 'service', facts.answer)
  if (facts.answer.status === 'known' && facts.answer.value === null)
    gaps.push({ name: 'answer of the write API', owner: 'service', reason: 'not recorded' })
  look('intent', 'relay', facts.intent)
  look('commit time', 'relay', facts.commit)
  look('last read of the bucket', 'relay', facts.bucket)
  look('replays', 'relay', facts.replays)
  look('decisions', 'relay', facts.decisions)
  const intent = valueOf(facts.intent)
  if (intent?.row?.state === 'published' && intent.row.receipt === null)
    gaps.push({ name: 'receipt of the hand-over', owner: 'relay', reason: 'the destination gave none' })
  lookAtAll('consumer', 'consumer', facts.consumers)
  lookAtAll('projection', 'projection', facts.projections, without)
  lookAtAll('public read', 'read', facts.reads, without)
  for (const { name, fact } of facts.reads) {
    const answer = valueOf(fact)
    if (answer !== undefined && answer.revision === null)
      gaps.push({
        name: `revision in public read ${name}`,
        owner: 'read',
        reason: answer.noRevision ?? 'none',
      })
  }
  return gaps
}

/** The five questions, each answered from facts or open (null). */
export interface Answers {
  readonly canonicalRevision: string | null
  readonly intent: string | null
  readonly repeatKey: string | null
  readonly confirmedRevision: string | null
  readonly publicRead: string | null
}

export function answersOf(facts: Facts, key: TraceKey): Answers {
  const source = valueOf(facts.source)
  const intent = valueOf(facts.intent)
  const shown = facts.projections.map(({ fact }) => valueOf(fact)?.revision).filter((r) => r != null)
  const applied = facts.consumers.some(({ fact }) => valueOf(fact)?.result === 'applied')
  const reads = facts.reads.map(({ name, fact }) => {
    const answer = valueOf(fact)
    return `${name}: ${answer === undefined ? 'unknown' : (answer.revision ?? answer.noRevision ?? 'unknown')}`
  })
  return {
    canonicalRevision:
      source === undefined || source.newestRevision === null || facts.source.status === 'not-configured'
        ? null
        : `${facts.source.source}: ${source.holdsRevision ? key.revision : source.newestRevision}`,
    intent:
      intent?.row == null
        ? intent === undefined || intent.headRevision === null
          ? null
          : `none for ${key.revision}; the newest intended is ${intent.headRevision}`
        : `${key.revision === null ? 'without a revision, it' : intentKey(key)} is ${intent.row.state}, event ${intent.row.eventId}`,
    repeatKey: intent?.row == null || key.revision === null ? null : intentKey(key),
    confirmedRevision:
      applied && key.revision !== null ? String(key.revision) : (shown.toSorted(byNumber).at(-1) ?? null),
    publicRead: reads.length === 0 ? null : reads.join('; '),
  }
}

function byNumber(a: string, b: string): number {
  return BigInt(a) < BigInt(b) ? -1 : 1
}
