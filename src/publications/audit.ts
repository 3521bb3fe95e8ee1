import { type AuditPage, type AuditRow, createPageReader } from './audit-pages.ts'
import type { FactSources } from './collect.ts'
import { stateLabel } from './explain.ts'
import { findRead } from './facts/read.ts'
import { findFact } from './facts/fact.ts'
import type { PublicRead, Publication } from './publication.ts'
import { readSign, readWorst, worst } from './signs-of.ts'
import type { ReadSign } from './signs.ts'
import { type Owner, type Symptom, judgePublication } from './verdict.ts'

export interface AuditOptions {
  /** Revisions looked at by one statement. Default: 2 000. */
  readonly batch?: number
  /** Keys told for each symptom; the count is always whole. Default: 10. */
  readonly keysTold?: number
  /** Asks the public reads too, one request for each revision. Default: false. */
  readonly withReads?: boolean
  /** Requests under way at once. Default: 16. */
  readonly readsAtOnce?: number
  readonly onProgress?: (checked: number) => void
  /** True ends the audit after the batch at hand. */
  readonly isOver?: () => boolean
}

export interface AuditKey {
  readonly id: string
  /** Decimal text. */
  readonly revision: string
  readonly state: string
  readonly cause: string
  readonly owner: Owner | null
}

/** What an audit found in one publication. The form of `waybill audit --json`. */
export interface AuditReport {
  readonly publication: string
  /** Revisions of the source that were looked at. */
  readonly checked: number
  /** False when it was ended before the last. */
  readonly complete: boolean
  readonly states: Readonly<Record<string, number>>
  readonly symptoms: Readonly<
    Partial<Record<Symptom, { readonly count: number; readonly first: readonly AuditKey[] }>>
  >
  /** What was not looked at, so that no symptom of it can have been found. */
  readonly gaps: readonly { readonly name: string; readonly reason: string }[]
  readonly tookMs: number
}

/**
 * Looks at every revision of a publication's source, in pages by the id, each statement bounded. The same signs and
 * the same verdict as a trace.
 *
 * @throws CONFIGURATION_INVALID, and what the database of the source says; a consumer's database that cannot be read
 *   is a gap.
 */
export async function auditPublication(
  sources: FactSources,
  publication: Publication,
  options: AuditOptions = {},
): Promise<AuditReport> {
  const startedAt = performance.now()
  const { batch = 2_000, keysTold = 10, withReads = false, isOver = () => false } = options
  const pages = await createPageReader(sources, publication, batch)
  const found = createTally(publication.name, keysTold)
  let complete = true
  for (let page = await pages.first(); page.rows.length > 0; page = await pages.next(page)) {
    const reads = withReads
      ? await askAll(publication.reads, publication.name, page, options.readsAtOnce ?? 16)
      : []
    page.rows.forEach((row, n) => found.add(row, withReads ? reads[n]! : 'unconfigured'))
    options.onProgress?.(found.checked)
    if (!isOver()) continue
    complete = false
    break
  }
  const gaps = [...pages.gaps()]
  if (publication.reads.length > 0 && !withReads)
    gaps.push({ name: 'public reads', reason: 'not asked, --reads asks them' })
  return { ...found.report(), complete, gaps, tookMs: Math.round(performance.now() - startedAt) }
}

function createTally(publication: string, keysTold: number) {
  const states: Record<string, number> = {}
  const symptoms: Partial<Record<Symptom, { count: number; first: AuditKey[] }>> = {}
  let checked = 0
  return {
    get checked() {
      return checked
    },
    add({ id, revision, signs }: AuditRow, read: ReadSign): void {
      checked++
      const verdict = judgePublication({ ...signs, read })
      const state = stateLabel(verdict.state, publication)
      states[state] = (states[state] ?? 0) + 1
      if (verdict.symptom === null) return
      const told = (symptoms[verdict.symptom] ??= { count: 0, first: [] })
      told.count++
      if (told.first.length < keysTold)
        told.first.push({ id, revision, state, cause: verdict.cause, owner: verdict.owner })
    },
    report: () => ({ publication, checked, states, symptoms }),
  }
}

/** The worst answer of all public reads for each row of a page, so many at once. */
async function askAll(
  reads: readonly PublicRead[],
  type: string,
  { rows }: AuditPage,
  atOnce: number,
): Promise<readonly ReadSign[]> {
  const signs: ReadSign[] = []
  let next = 0
  const work = async () => {
    while (next < rows.length) {
      const n = next++
      const { id, revision } = rows[n]!
      const key = { type, id, revision: BigInt(revision), scope: '' }
      const asked: ReadSign[] = []
      for (const read of reads) {
        const fact = await findFact(`read ${read.name}`, read.timeoutMs, (signal) =>
          findRead(read, key, signal),
        )
        asked.push(readSign(fact, key.revision))
      }
      signs[n] = worst(readWorst, asked)
    }
  }
  await Promise.all(Array.from({ length: Math.min(atOnce, rows.length) }, work))
  return signs
}
