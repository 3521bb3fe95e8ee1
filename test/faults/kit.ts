import { setTimeout as delay } from 'node:timers/promises'
import { expect } from 'vitest'
import type { Publisher } from '../../src/publishing/publisher.ts'
import type { Ledger } from '../support/ledger.ts'
import { whole } from '../support/ledger.ts'
import { type TestDatabase, waitsForLock } from '../support/postgres.ts'

export interface BrokerOptions {
  ordering?: 'batch' | 'per-call'
  /** How long each call takes, in milliseconds. Default: 0. */
  takesMs?: number
}

/** A broker that confirms everything and tells the ledger. */
export function ledgerBroker(
  ledger: Ledger,
  { ordering = 'per-call', takesMs = 0 }: BrokerOptions = {},
): Publisher {
  return {
    name: 'ledger',
    capabilities: { ordering, deduplication: false },
    async publish(messages) {
      if (takesMs > 0) await delay(takesMs)
      for (const message of messages) ledger.arrived(message)
      return messages.map(() => ({ status: 'published' }))
    },
    close: () => Promise.resolve(),
  }
}

/** The four sessions of a relay, by their names in `pg_stat_activity`. */
export const relaySessions = ['waybill leases', 'waybill listen', 'waybill mark', 'waybill read'] as const
export type RelaySession = (typeof relaySessions)[number]

export interface SessionRow {
  pid: number
  name: string
  state: string
  waits: boolean
}

/** The relay's sessions in a database, in the order of their names. */
export function readSessions(database: Pick<TestDatabase, 'rows'>): Promise<SessionRow[]> {
  return database.rows<SessionRow>(
    `SELECT pid, application_name AS name, state, coalesce(${waitsForLock}, false) AS waits FROM pg_stat_activity
     WHERE datname = current_database() AND application_name LIKE 'waybill %' ORDER BY 2, 1`,
  )
}

/** Terminates the relay's sessions of one name, or those of them that wait for a lock; answers their process ids. */
export async function terminate(
  database: Pick<TestDatabase, 'rows'>,
  name: RelaySession,
  options: { waiting?: boolean } = {},
): Promise<number[]> {
  const rows = await database.rows<{ pid: number }>(terminating(name, options))
  return rows.map(({ pid }) => pid)
}

/** The same as SQL; waits up to `waitMs` for their end. Chosen first, then terminated: the planner orders conditions. */
export function terminating(name: RelaySession, { waiting = false, waitMs = 0 } = {}): string {
  return `WITH chosen AS MATERIALIZED (
      SELECT pid FROM pg_stat_activity
      WHERE datname = current_database() AND application_name = '${name}' AND (${!waiting} OR (${waitsForLock}))
    )
    SELECT pid, pg_terminate_backend(pid, ${waitMs}) FROM chosen`
}

/** Notifies as a writer does that sees the relay asleep. */
export async function wake(database: Pick<TestDatabase, 'rows'>): Promise<void> {
  await database.rows(`SELECT pg_notify('waybill_' || '"waybill".outbox_events'::regclass::oid, '')`)
}

/** Resolves with the answer once there is one; for what only a look at the database can tell. */
export async function eventually<T>(
  what: string,
  look: () => Promise<T | undefined | false>,
  limitMs = 15_000,
): Promise<T> {
  const end = performance.now() + limitMs
  for (;;) {
    const found = await look()
    if (found !== undefined && found !== false) return found
    if (performance.now() > end) throw new Error(`${what}: not within ${limitMs} ms`)
    await delay(20)
  }
}

/** Resolves when a session of this name, other than `not`, waits for a lock. */
export function untilWaiting(
  database: Pick<TestDatabase, 'rows'>,
  name: RelaySession,
  not?: number,
): Promise<SessionRow> {
  return eventually(`${name} waits for a lock`, async () =>
    (await readSessions(database)).find(
      (session) => session.name === name && session.waits && session.pid !== not,
    ),
  )
}

/** Everything arrived once, in order, with its bytes; and no event has an attempt or a crash counted against it. */
export async function expectWhole(ledger: Ledger, database: Pick<TestDatabase, 'rows'>): Promise<void> {
  const verdict = await ledger.verdict()
  expect(verdict).toEqual(whole(verdict.written))
  expect(verdict.written).toBeGreaterThan(0)
  const [row] = await database.rows(
    `SELECT count(*)::int AS rows, count(*) FILTER (WHERE processed_at IS NULL)::int AS unpublished,
            count(*) FILTER (WHERE attempts > 0 OR crashes > 0 OR dead_at IS NOT NULL)::int AS blamed
     FROM "waybill".outbox_events`,
  )
  expect(row).toEqual({ rows: verdict.written, unpublished: 0, blamed: 0 })
}
