// What the facts of one publication say, as a few words for each owner. The verdict looks at these alone.

/**
 * The canonical revision, against the one that is asked for. `newer`: the source keeps the latest row only, and has passed
 * it; one that keeps all of them, and has a later one without this one, is `missing` it.
 */
export type SourceSign = 'missing' | 'behind' | 'here' | 'newer' | 'unknown' | 'unconfigured'

/**
 * The decision to publish exactly that revision. `blocked`: pending behind an earlier event of its aggregate;
 * `unrecorded`: pending, although a consumer or a projection has it; `passed`: dead, and a newer revision was handed
 * over; `aged-out`: below the newest revision that was handed over, and without a row: removed by retention, if it was.
 */
export type IntentSign =
  | 'none'
  | 'aged-out'
  | 'pending'
  | 'unrecorded'
  | 'blocked'
  | 'dead'
  | 'passed'
  | 'discarded'
  | 'relayed'
  | 'unknown'

/** The destinations, as live relays tell. `down`: each that they know is; `unknown`: no relay tells. */
export type DestinationSign = 'up' | 'down' | 'unknown'

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
  destination: DestinationSign
  consumer: ConsumerSign
  projection: ProjectionSign
  read: ReadSign
  /** Longer than the publication's limit: until it was handed over, or since then or its beginning while it waits. */
  late: boolean
  /** Some consumer applied this revision more than once. */
  twice: 'no' | 'yes' | 'unknown'
}

/** Every word of each sign, for tests that walk all of them. */
export const signWords = {
  source: ['missing', 'behind', 'here', 'newer', 'unknown', 'unconfigured'],
  intent: [
    ...(['none', 'aged-out', 'pending', 'unrecorded', 'blocked', 'dead', 'passed', 'discarded'] as const),
    ...(['relayed', 'unknown'] as const),
  ],
  destination: ['up', 'down', 'unknown'],
  consumer: ['silent', 'applied', 'stale', 'rejected', 'parked', 'unknown', 'unconfigured'],
  projection: ['missing', 'behind', 'current', 'newer', 'beyond', 'unknown', 'unconfigured'],
  read: ['missing', 'behind', 'cached', 'current', 'unknown', 'unconfigured'],
  late: [false, true],
  twice: ['no', 'yes', 'unknown'],
} as const satisfies { [Sign in keyof Signs]: readonly Signs[Sign][] }
