import type { Connection } from '../database/connection.ts'
import { inSchema } from '../database/identifiers.ts'
import type { AuditReport } from './audit.ts'

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
  const { rows } = await db.query<{ result: AuditRound; age: number }>(
    inSchema(
      `SELECT t.result AS "result", greatest(0, extract(epoch FROM clock_timestamp() - t.finished_at))::float8 AS "age"
       FROM "waybill".outbox_tasks AS t WHERE t.name = 'audit' AND t.result IS NOT NULL AND t.finished_at IS NOT NULL`,
      schema,
    ),
  )
  const [row] = rows
  return row === undefined ? null : { ...row.result, ageSeconds: row.age }
}
