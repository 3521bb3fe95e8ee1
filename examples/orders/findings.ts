import type { Outage } from './faults.ts'
import type { Comparison } from './ledger.ts'
import { number } from '../support/progress.ts'
import type { Death } from '../support/relay-process.ts'
import type { Findings } from '../support/findings.ts'
import type { Stage } from './stage.ts'

/** Without faults the figures would say nothing. */
export function checkFaults(
  { check }: Findings,
  facts: {
    deaths: readonly Death[]
    outage: Outage | undefined
    rolledBack: number
    bodies: readonly string[]
  },
): void {
  const { deaths, outage, rolledBack, bodies } = facts
  const killed = deaths.filter(({ signal }) => signal === 'SIGKILL').length
  check(
    killed === 2 && deaths.length === 2,
    `the relay was killed twice: died of ${deaths.map(({ pid, code, signal }) => `${signal ?? `exit ${code}`} (process ${pid})`).join(', ') || 'nothing'}`,
  )
  check(
    outage?.refusal === 'ECONNREFUSED' && outage.noticed && outage.pending > 0,
    outage === undefined
      ? 'the receiver was away'
      : `the receiver was away: ${outage.refusal} while ${number(outage.pending)} events waited, ${outage.noticed ? 'noticed' : 'not noticed'} by the relay`,
  )
  check(rolledBack > 0, `${number(rolledBack)} transactions failed at their commit, with an event in them`)
  const fragile = bodies.filter((body) => /: (1\.10|90071992547409\.93)[,}]/.test(body)).length
  check(fragile > 0, `${number(fragile)} events hold numbers that JSON in JavaScript would have changed`)
  check(outage?.attempts === 0, `attempts that the outage cost: ${outage?.attempts ?? 'unknown'}`)
}

/** What the ledger says, and the figures of both services. */
export async function checkDelivery(
  { check }: Findings,
  { summary, problems }: Comparison,
  { orders, billing }: Pick<Stage, 'orders' | 'billing'>,
): Promise<void> {
  check(
    problems.length === 0,
    problems.length === 0
      ? 'every event arrived, in order, byte for byte, and no other'
      : problems.join('; '),
  )
  check(
    summary.duplicates >= 2,
    `what was in flight at a death came again: ${number(summary.duplicates)} duplicates`,
  )
  const sold = await orders.query<Figures>(
    "SELECT count(*)::int AS orders, sum(total)::text AS total FROM orders WHERE status = 'shipped'",
  )
  const billed = await billing.query<Figures>(
    `SELECT count(*)::int AS orders, (SELECT sum(spent)::text FROM accounts) AS total
     FROM invoices WHERE status = 'closed'`,
  )
  const [mine, theirs] = [sold.rows[0]!, billed.rows[0]!]
  check(
    mine.orders === theirs.orders && mine.total === theirs.total,
    `sold ${number(mine.orders)} orders for ${mine.total}, billed ${number(theirs.orders)} for ${theirs.total}`,
  )
  const { rows } = await orders.query<{ attempts: number; dead: number }>(
    'SELECT coalesce(sum(attempts), 0)::int AS attempts, count(dead_at)::int AS dead FROM waybill.outbox_events',
  )
  const { attempts, dead } = rows[0]!
  check(attempts + dead === 0, `counted attempts: ${attempts}, dead letters: ${dead}`)
}

interface Figures {
  orders: number
  total: string | null
}
