import type { Facts, Named } from './collect.ts'
import type { Fact } from './facts/fact.ts'
import { valueOf } from './facts/fact.ts'
import { intentKey } from '../intent-key.ts'
import type { TraceKey } from './key.ts'
import type { Action, Owner, PublicationState, Symptom } from './verdict.ts'

/** The state as it is printed: `source-only` bears the publication's name. */
export function stateLabel(state: PublicationState, type: string): string {
  return state === 'source-only' ? `${type}-only` : state
}

export const symptomTexts: Readonly<Record<Symptom, string>> = {
  'intent-missing': 'the canonical revision is there, the intent is not',
  'intent-overdue': 'no hand-over of the intent is on record: it waits for too long, or was given up',
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
    'No relay has handed it over within the time that the publication allows: none reads its bucket, or the tries fail.',
  'destination-down':
    'The destination is away, as the relays say themselves: events wait for it, and no attempt is counted.',
  'not-recorded':
    'It was handed over, as a consumer or a projection shows, and no relay has put that on record: it goes out once more.',
  'behind-blocked-event': 'An earlier event of the same aggregate holds it back; order is kept.',
  'dead-letter': 'The relay gave the event up; the reason stands with it.',
  'dead-overtaken':
    'The relay gave the event up, and a newer revision was handed over, which takes its place.',
  discarded: 'Somebody decided to give this event up.',
  'older-than-retention':
    'No row of this revision is left: it is older than the retention, or it never was. A newer one was handed over.',
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
  'run-relay':
    'Let a relay run: the repetition changes nothing twice, and is put on record. No new revision.',
  'restore-destination':
    'Bring the destination back, or correct its address; what waits then goes out by itself, in order. No new revision.',
  'release-blocker': 'Deal with the event that holds it back; the others follow in order.',
  'retry-dead': 'Remove the reason, then retry exactly this event.',
  'discard-dead':
    'Nothing has to go out. Discard the dead letter, with a reason; where each revision is needed, retry it with --allow-older.',
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
  'clear-cache':
    'Remove it from the cache, or wait until its time is over: Age and Cache-Control tell when. Nothing is to be replayed.',
  'restore-source': 'Find out which side was restored before anything is repeated.',
}

export function actionText(action: Action): string {
  return actionTexts[action]
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
    gaps.push({ name: 'answer of the write API', owner: 'service', reason: noAnswer(facts, revision) })
  look('intent', 'relay', facts.intent)
  look('commit time', 'relay', facts.commit)
  look('last read of the bucket', 'relay', facts.bucket)
  look('destinations', 'relay', facts.destinations)
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

/** The head of an aggregate has room for one answer: that of its newest revision. */
function noAnswer({ intent }: Facts, revision: bigint | null): string {
  const newest = valueOf(intent)?.headRevision ?? null
  return newest !== null && revision !== null && BigInt(newest) > revision
    ? `kept for the newest revision only, which is ${newest}`
    : 'not recorded'
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
