import { describeError } from '../errors.ts'
import { type AuditReport, auditPublication } from '../publications/audit.ts'
import type { OpenFactSources } from '../publications/fact-sources.ts'
import { type Telemetry, auditPauseMs } from '../telemetry/events.ts'
import { type BackgroundService, createBackgroundService } from './background.ts'
import { createLatest } from './latest.ts'
import { type AuditRound, type StoredAudits, readAudits } from './stored-audit.ts'
import { abandonTask, claimTask, finishTask, renewTask } from './task-lease.ts'

export interface AuditorOptions {
  facts: OpenFactSources
  telemetry: Telemetry
  /** A UUID: the relay on whose behalf this one works. */
  relayId: string
  /** Shortest pause between two rounds, in milliseconds. Default: 5 000. */
  intervalMs?: number
}

export interface Auditor extends BackgroundService {
  /** The newest round known here, whoever made it, with its present age; null when there is none. */
  latest(): StoredAudits | null
}

/**
 * Audits all publications when it is this relay's turn, and reads what another one found otherwise: one relay at a
 * time audits for all. Public reads are not asked. Emits `audit.taken`, and `audit.failed` once for each publication
 * that begins to fail.
 */
export function createAuditor(options: AuditorOptions): Auditor {
  const { facts, telemetry, relayId, intervalMs = 5_000 } = options
  const { db, schema } = facts.sources.outbox
  const task = { db, schema, name: 'audit', owner: relayId, leaseMs: 60_000 } as const
  const failing = new Set<string | null>()
  const latest = createLatest<StoredAudits>()

  async function run(signal: AbortSignal): Promise<void> {
    try {
      const lastMs = latest.get()?.durationMs ?? 0
      const everyMs = Math.max(intervalMs * 0.9, auditPauseMs(lastMs))
      if (await claimTask(task, everyMs)) await take(signal)
      else latest.remember(await readAudits(db, schema))
      failing.delete(null)
    } catch (error) {
      failed(null, error)
      await abandonTask(task).catch(() => undefined)
    }
  }

  function failed(publication: string | null, error: unknown): string {
    const reason = describeError(error, 500)
    if (!failing.has(publication)) telemetry.emit('audit.failed', { publication, error: reason })
    failing.add(publication)
    return reason
  }

  async function take(signal: AbortSignal): Promise<void> {
    const startedAt = performance.now()
    let isOurs = true
    const renewing = setInterval(() => {
      renewTask(task).then(
        (held) => (isOurs &&= held),
        () => undefined,
      )
    }, task.leaseMs / 4).unref()
    try {
      const { reports, failures } = await auditAll(() => signal.aborted || !isOurs)
      if (signal.aborted || !isOurs) return await abandonTask(task)
      const durationMs = Math.round(performance.now() - startedAt)
      const round: AuditRound = { publications: reports, failures, durationMs }
      await finishTask(task, round)
      latest.remember({ ...round, ageSeconds: 0 })
      const symptoms = reports.flatMap((report) => Object.values(report.symptoms))
      telemetry.emit('audit.taken', {
        publications: reports.length,
        checked: reports.reduce((sum, report) => sum + report.checked, 0),
        symptoms: symptoms.reduce((sum, { count }) => sum + count, 0),
        durationMs,
      })
    } finally {
      clearInterval(renewing)
    }
  }

  /** One that cannot be read says nothing of the others. */
  async function auditAll(isOver: () => boolean) {
    const reports: AuditReport[] = []
    const failures: { publication: string; reason: string }[] = []
    for (const publication of facts.publications.values()) {
      if (isOver()) break
      try {
        reports.push(await auditPublication(facts.sources, publication, { isOver }))
        failing.delete(publication.name)
      } catch (error) {
        failures.push({ publication: publication.name, reason: failed(publication.name, error) })
      }
    }
    return { reports, failures }
  }

  return {
    ...createBackgroundService({ intervalMs, run }),
    latest: latest.get,
  }
}
