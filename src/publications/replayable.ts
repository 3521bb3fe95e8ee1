import { intentKey } from '../intent-key.ts'
import { show } from '../wording.ts'
import type { IntentFact } from './facts/intent.ts'
import type { SourceFact } from './facts/source.ts'
import type { PublicationKey } from './key.ts'
import type { Publication } from './publication.ts'

export interface ReplayFacts {
  readonly intent: Pick<IntentFact, 'row' | 'relayedRevision'>
  /** Null: no source is configured. */
  readonly source: SourceFact | null
  /** The newest revision that readers see; null: not known. */
  readonly visibleRevision: bigint | null
}

/** Why a key may not be repeated, in one sentence; null when it may. What is asked of the source comes after the intent. */
export function whyNoReplay(
  { intent: { row, relayedRevision }, source, visibleRevision }: ReplayFacts,
  publication: Publication | null,
  key: PublicationKey,
): string | null {
  const printed = intentKey(key)
  if (row === null)
    return `${printed} has no intent, and a replay creates none: find the write path, then decide with "waybill intent create"`
  if (row.state === 'dead' && relayedRevision !== null && BigInt(relayedRevision) > key.revision)
    return `${printed} is a dead letter, and revision ${relayedRevision}, which takes its place, was handed over since`
  if (row.state === 'dead')
    return `${printed} is a dead letter: retry it with "waybill dead retry ${row.eventId}"`
  if (row.state !== 'published') return `${printed} is ${row.state}, so there is nothing to repeat yet`
  if (publication !== null && source !== null && !mayHold(source, key))
    return notInSource(publication, key, source.newestRevision)
  if (visibleRevision !== null && visibleRevision > key.revision)
    return `revision ${visibleRevision} is visible already, and ${printed} is older: --allow-older repeats it all the same`
  return null
}

/** One that keeps the latest row only has held each revision below it. */
function mayHold({ holdsRevision, newestRevision }: SourceFact, { revision }: PublicationKey): boolean {
  return holdsRevision || (newestRevision !== null && BigInt(newestRevision) >= revision)
}

export function notInSource(
  { source }: Publication,
  { revision, type, id }: PublicationKey,
  newest: string | null,
): string {
  const has = newest === null ? 'no row of it' : `revision ${newest}`
  return `the table ${source.table} does not hold revision ${revision} of ${type} ${show(id)}, it has ${has}: nothing may be published that is not saved`
}
