import type { Connection } from '../database/connection.ts'
import type { AuditReport } from '../publications/audit.ts'
import { readTask } from './task-lease.ts'

/** The last audits of all publications, as a relay made them. */
export interface AuditRound {
  readonly publications: readonly AuditReport[]
  /** Publications that could not be audited. */
  readonly failures: readonly { readonly publication: string; readonly reason: string }[]
  /** How long all of them took, in milliseconds. */
  readonly durationMs: number
}

export interface StoredAudits extends AuditRound {
  /** By the database's clock. */
  readonly ageSeconds: number
}

/** What the relays' last audits found, or null when there was none yet. One look-up by key. */
export async function readAudits(db: Connection, schema: string): Promise<StoredAudits | null> {
  const read = await readTask(db, schema, 'audit')
  return read === null ? null : { ...(read.result as AuditRound), ageSeconds: read.ageSeconds }
}
