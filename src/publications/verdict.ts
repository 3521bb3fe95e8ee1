import type { Signs } from './signs.ts'

/**
 * Where a publication is. `source-only` is printed with the name of the publication (`note-only`).
 * - `not-saved`: the source does not hold the revision, and nobody decided to publish it
 * - `source-only`: saved, and no decision to publish it
 * - `intent-pending`: decided, and no hand-over is on record. Never a loss
 * - `intent-dead`: decided, and given up
 * - `intent-relayed`: handed over. Not yet published
 * - `projection-current`: the public side holds this revision or a later one
 * - `unknown`: the facts do not say
 */
export type PublicationState =
  | 'not-saved'
  | 'source-only'
  | 'intent-pending'
  | 'intent-dead'
  | 'intent-relayed'
  | 'projection-current'
  | 'unknown'

/** The five rows of the diagnostic table. */
export type Symptom =
  'intent-missing' | 'intent-overdue' | 'projection-old' | 'applied-twice' | 'public-read-old'

/** Who has to act next; `owners` of the publication names the team. */
export type Owner = 'service' | 'relay' | 'consumer' | 'projection' | 'read'

/** What may be done safely. */
export type Action =
  | 'none'
  | 'wait'
  | 'find-fact'
  | 'save'
  | 'decide-intent'
  | 'repair-relay'
  | 'run-relay'
  | 'restore-destination'
  | 'release-blocker'
  | 'retry-dead'
  | 'discard-dead'
  | 'repair-consumer'
  | 'retry-consumer'
  | 'ask-consumer'
  | 'find-gap'
  | 'rebuild-projection'
  | 'make-conditional'
  | 'repair-read'
  | 'clear-cache'
  | 'restore-source'

export interface Verdict {
  readonly state: PublicationState
  readonly symptom: Symptom | null
  /** A word for the cause, stable in JSON; sentences are made from it elsewhere. */
  readonly cause: string
  readonly owner: Owner | null
  readonly action: Action
}

interface Row extends Verdict {
  readonly when: (signs: Signs) => boolean
}

const isOneOf =
  <Key extends keyof Signs>(key: Key, ...words: readonly Signs[Key][]) =>
  (signs: Signs) =>
    words.includes(signs[key])
const all =
  (...conditions: readonly ((signs: Signs) => boolean)[]) =>
  (signs: Signs) =>
    conditions.every((holds) => holds(signs))

const late = isOneOf('late', true)
const inTime = isOneOf('late', false)
const once = isOneOf('twice', 'no', 'unknown')
const isSaved = isOneOf('source', 'here')
const isOvertaken = isOneOf('source', 'newer')
const sourceUntold = isOneOf('source', 'unknown', 'unconfigured')
const notSaved = isOneOf('source', 'missing', 'behind')
/** Nothing but its number says that it ever was. */
const isGone = all(
  ...[isOneOf('intent', 'aged-out'), once],
  isOneOf('source', 'missing', 'behind', 'newer', 'unknown', 'unconfigured'),
  isOneOf('consumer', 'silent', 'unknown', 'unconfigured'),
  isOneOf('projection', 'missing', 'behind', 'newer', 'unknown', 'unconfigured'),
)
const isOut = (signs: Signs) => isOneOf('intent', 'relayed', 'aged-out')(signs) && !isGone(signs)
const relayed = all(isOut, once)
const pending = isOneOf('intent', 'pending')
const unrecorded = isOneOf('intent', 'unrecorded')
const isDown = isOneOf('destination', 'down')
const shown = isOneOf('projection', 'current', 'newer')
const notShown = isOneOf('projection', 'missing', 'behind')
const projectionUntold = isOneOf('projection', 'unknown', 'unconfigured')
const readIsFine = isOneOf('read', 'current')
const readUntold = isOneOf('read', 'unknown', 'unconfigured')
/** Less than asked, and not because some cache says so. */
const readShowsLess = isOneOf('read', 'missing', 'behind')
const readIsCached = isOneOf('read', 'cached')
const readIsNotFine = isOneOf('read', 'missing', 'behind', 'cached', 'unknown', 'unconfigured')

const row = (
  when: Row['when'],
  state: PublicationState,
  symptom: Symptom | null,
  cause: string,
  owner: Owner | null,
  action: Action,
): Row => ({ when, state, symptom, cause, owner, action })

/** Handed over, and the projection shows less or does not tell: what the consumer recorded decides. */
function projectionOld(where: Row['when'], applied: Row): readonly Row[] {
  const here = all(relayed, where)
  const old = (when: Row['when'], cause: string, owner: Owner, action: Action) =>
    row(all(here, when), 'intent-relayed', 'projection-old', cause, owner, action)
  const consumer = (...words: Signs['consumer'][]) => isOneOf('consumer', ...words)
  return [
    old(consumer('rejected'), 'consumer-rejected', 'consumer', 'repair-consumer'),
    old(consumer('parked'), 'parked-behind-gap', 'consumer', 'find-gap'),
    row(all(here, consumer('silent'), inTime), 'intent-relayed', null, 'no-receipt-yet', 'consumer', 'wait'),
    old(all(consumer('silent'), late), 'no-receipt', 'consumer', 'repair-consumer'),
    { ...applied, when: all(here, consumer('applied', 'stale', 'unknown', 'unconfigured'), applied.when) },
  ]
}

const untoldConsumer = isOneOf('consumer', 'unknown', 'unconfigured')
const tellingConsumer = isOneOf('consumer', 'applied', 'stale')

/** Every combination of signs meets exactly one of these rows: a test walks them all. */
export const verdictRows: readonly Row[] = [
  // 1. The decision.
  row(all(isOneOf('intent', 'unknown')), 'unknown', null, 'intent-unknown', 'relay', 'find-fact'),
  row(all(isOneOf('intent', 'none'), notSaved), 'not-saved', null, 'not-saved', 'service', 'save'),
  row(
    all(isOneOf('intent', 'none'), isSaved),
    'source-only',
    'intent-missing',
    'no-intent',
    'service',
    'decide-intent',
  ),
  row(all(isOneOf('intent', 'none'), isOvertaken), 'unknown', null, 'overtaken', null, 'none'),
  row(
    all(isOneOf('intent', 'none'), sourceUntold),
    'unknown',
    null,
    'source-unknown',
    'service',
    'find-fact',
  ),

  // 2. The relay.
  row(all(pending, inTime), 'intent-pending', null, 'not-yet-relayed', 'relay', 'wait'),
  row(
    all(pending, late, isOneOf('destination', 'up', 'unknown')),
    'intent-pending',
    'intent-overdue',
    'relay-late',
    'relay',
    'repair-relay',
  ),
  row(
    all(pending, late, isDown),
    'intent-pending',
    'intent-overdue',
    'destination-down',
    'relay',
    'restore-destination',
  ),
  row(all(unrecorded, inTime), 'intent-pending', null, 'not-recorded', 'relay', 'wait'),
  row(all(unrecorded, late), 'intent-pending', 'intent-overdue', 'not-recorded', 'relay', 'run-relay'),
  row(
    all(isOneOf('intent', 'blocked'), inTime),
    'intent-pending',
    null,
    'behind-blocked-event',
    'relay',
    'release-blocker',
  ),
  row(
    all(isOneOf('intent', 'blocked'), late),
    'intent-pending',
    'intent-overdue',
    'behind-blocked-event',
    'relay',
    'release-blocker',
  ),
  row(isOneOf('intent', 'dead'), 'intent-dead', 'intent-overdue', 'dead-letter', 'relay', 'retry-dead'),
  row(isOneOf('intent', 'passed'), 'intent-dead', null, 'dead-overtaken', 'relay', 'discard-dead'),
  row(isOneOf('intent', 'discarded'), 'intent-dead', null, 'discarded', 'service', 'none'),

  row(isGone, 'unknown', null, 'older-than-retention', null, 'none'),

  // 3. The consumer: a revision that was applied twice is a fault, wherever it shows.
  row(
    all(isOut, isOneOf('twice', 'yes'), isOneOf('projection', 'current', 'newer', 'beyond')),
    'projection-current',
    'applied-twice',
    'no-condition',
    'consumer',
    'make-conditional',
  ),
  row(
    all(
      isOut,
      isOneOf('twice', 'yes'),
      isOneOf('projection', 'missing', 'behind', 'unknown', 'unconfigured'),
    ),
    'intent-relayed',
    'applied-twice',
    'no-condition',
    'consumer',
    'make-conditional',
  ),
  ...projectionOld(
    notShown,
    row(
      () => true,
      'intent-relayed',
      'projection-old',
      'applied-but-projection-old',
      'projection',
      'rebuild-projection',
    ),
  ),
  ...projectionOld(
    all(projectionUntold, readIsNotFine),
    row(tellingConsumer, 'intent-relayed', null, 'projection-unknown', 'projection', 'find-fact'),
  ),
  row(
    all(relayed, projectionUntold, readIsNotFine, untoldConsumer),
    'intent-relayed',
    null,
    'consumer-unknown',
    'consumer',
    'find-fact',
  ),
  row(
    all(relayed, isOneOf('projection', 'beyond')),
    'unknown',
    null,
    'projection-beyond-source',
    'service',
    'restore-source',
  ),

  // 4. The reader.
  row(all(relayed, projectionUntold, readIsFine), 'projection-current', null, 'read-shows-it', null, 'none'),
  row(all(relayed, shown, readIsFine), 'projection-current', null, 'visible', null, 'none'),
  row(all(relayed, shown, readUntold), 'projection-current', null, 'read-unknown', 'read', 'find-fact'),
  row(
    all(relayed, shown, readShowsLess),
    'projection-current',
    'public-read-old',
    'read-elsewhere',
    'read',
    'repair-read',
  ),
  row(
    all(relayed, shown, readIsCached),
    'projection-current',
    'public-read-old',
    'cached',
    'read',
    'clear-cache',
  ),
]

const unknown: Verdict = {
  state: 'unknown',
  symptom: null,
  cause: 'no-rule',
  owner: null,
  action: 'find-fact',
}

/** What the signs of one publication mean. Never "fine" by default. */
export function judgePublication(signs: Signs): Verdict {
  const found = verdictRows.find(({ when }) => when(signs))
  if (found === undefined) return unknown
  const { state, symptom, cause, owner, action } = found
  return { state, symptom, cause, owner, action }
}

/**
 * The same for an event without a revision: its way ends at the consumers. None of the five symptoms beyond the relay
 * can be told without a revision, and none of its repairs be made: a consumer's dead letter can be put back.
 */
export function judgeEvent(signs: Signs): Verdict {
  const verdict = judgePublication(signs)
  if (verdict.state !== 'intent-relayed') return verdict
  const { consumer } = signs
  if (consumer === 'applied' || consumer === 'stale')
    return { ...verdict, symptom: null, cause: 'consumer-done', owner: null, action: 'none' }
  const isLate = verdict.action === 'repair-consumer'
  const action = consumer === 'rejected' ? 'retry-consumer' : isLate ? 'ask-consumer' : verdict.action
  return { ...verdict, symptom: null, action }
}
