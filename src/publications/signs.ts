// What the facts of one publication say, as a few words for each owner. The verdict looks at these alone.

/** The canonical revision, against the one that is asked for. `newer`: the source keeps the latest row only, and has passed it. */
export type SourceSign = 'missing' | 'behind' | 'here' | 'newer' | 'unknown' | 'unconfigured'

/**
 * The decision to publish exactly that revision. `blocked`: pending behind an earlier event of its aggregate;
 * `aged-out`: at or below the newest revision that was handed over, and its row is gone.
 */
export type IntentSign =
  'none' | 'aged-out' | 'pending' | 'blocked' | 'dead' | 'discarded' | 'relayed' | 'unknown'

/** What the consumers recorded, the worst of them. `silent`: nothing. */
export type ConsumerSign = 'silent' | 'applied' | 'stale' | 'rejected' | 'parked' | 'unknown' | 'unconfigured'

/** The projection's revision. `newer`: a later revision overtook it; `beyond`: above the source itself. */
export type ProjectionSign =
  'missing' | 'behind' | 'current' | 'newer' | 'beyond' | 'unknown' | 'unconfigured'

/** What a public read answered. `cached`: less than asked, out of a cache by its own headers. */
export type ReadSign = 'missing' | 'behind' | 'cached' | 'current' | 'unknown' | 'unconfigured'

export interface Signs {
  source: SourceSign
  intent: IntentSign
  consumer: ConsumerSign
  projection: ProjectionSign
  read: ReadSign
  /** Longer than the publication's limit in its present state. */
  late: boolean
  /** Some consumer applied this revision more than once. */
  twice: 'no' | 'yes' | 'unknown'
}

/** Every word of each sign, for tests that walk all of them. */
export const signWords = {
  source: ['missing', 'behind', 'here', 'newer', 'unknown', 'unconfigured'],
  intent: ['none', 'aged-out', 'pending', 'blocked', 'dead', 'discarded', 'relayed', 'unknown'],
  consumer: ['silent', 'applied', 'stale', 'rejected', 'parked', 'unknown', 'unconfigured'],
  projection: ['missing', 'behind', 'current', 'newer', 'beyond', 'unknown', 'unconfigured'],
  read: ['missing', 'behind', 'cached', 'current', 'unknown', 'unconfigured'],
  late: [false, true],
  twice: ['no', 'yes', 'unknown'],
} as const satisfies { [Sign in keyof Signs]: readonly Signs[Sign][] }
