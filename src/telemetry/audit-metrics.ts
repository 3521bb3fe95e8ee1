import { Gauge, type Registry } from 'prom-client'
import { auditPauseMs } from './events.ts'

/** What the metrics need of the last audits. */
export interface AuditCounts {
  readonly publications: readonly {
    readonly publication: string
    readonly symptoms: Readonly<Record<string, { readonly count: number } | undefined>>
    readonly gaps: readonly { readonly name: string }[]
  }[]
  readonly durationMs: number
  readonly ageSeconds: number
}

/** What an audit that asks no public reads can find: these read 0 when they are not there. */
const symptoms = ['intent-missing', 'intent-overdue', 'projection-old', 'applied-twice'] as const

/** What the last audits found; absent while nothing is known, or what is known is too old. */
export function addAuditMetrics(registry: Registry, audits: () => AuditCounts | null): void {
  const registers = [registry]
  const fresh = () => {
    const known = audits()
    return known === null || isStale(known) ? [] : known.publications
  }
  new Gauge({
    name: 'publication_symptoms',
    help: 'Revisions with this symptom, by the last audit of the publication.',
    labelNames: ['publication', 'symptom'],
    registers,
    collect() {
      this.reset()
      for (const report of fresh())
        for (const symptom of symptoms)
          this.set({ publication: report.publication, symptom }, report.symptoms[symptom]?.count ?? 0)
    },
  })
  new Gauge({
    name: 'publication_audit_gaps',
    help: 'Owners whose facts the last audit could not read: their symptoms are not counted.',
    labelNames: ['publication'],
    registers,
    collect() {
      this.reset()
      for (const { publication, gaps } of fresh())
        this.set({ publication }, gaps.filter(({ name }) => name !== 'public reads').length)
    },
  })
  new Gauge({
    name: 'publication_audit_last_success_timestamp_seconds',
    help: 'When the publications were last audited, in seconds since 1970; absent before the first time.',
    registers,
    collect() {
      const known = audits()
      if (known === null) this.remove()
      else this.set(Date.now() / 1000 - known.ageSeconds)
    },
  })
}

/** Twice the pause and two minutes more is too late. */
function isStale({ ageSeconds, durationMs }: AuditCounts): boolean {
  return ageSeconds > 120 + (2 * auditPauseMs(durationMs)) / 1000
}
