import { setTimeout as delay } from 'node:timers/promises'
import { type Faults, type Outage, createFaults } from './faults.ts'
import { type Summary, createFindings } from '../support/findings.ts'
import { checkDelivery, checkFaults } from './findings.ts'
import { type Ledger, createLedger } from './ledger.ts'
import { type Progress, describe, number } from '../support/progress.ts'
import { eventsPerOrder, shop } from './shoppers.ts'
import { type Stage, setStage } from './stage.ts'

export interface OnceOptions {
  progress: Progress
  signal: AbortSignal
  /** Default: 1000. */
  orders?: number
  /** Default: a new one. */
  ledger?: Ledger
}

/** When nothing has arrived for so long, nothing will. */
const patienceMs = 30_000
const outageMs = 3_000

const told = new Set(['relay.started', 'destination.down', 'destination.up'])

/** Orders while parts are taken away, then the comparison, whose figures are the last line. Answers the exit code. */
export async function runOnce(options: OnceOptions): Promise<0 | 1> {
  const { summary, ok } = await compareAccounts(options)
  options.progress.print(JSON.stringify(summary))
  return ok ? 0 : 1
}

async function compareAccounts(options: OnceOptions): Promise<{ summary: Summary; ok: boolean }> {
  const { progress, orders = 1000, ledger = createLedger() } = options
  const expected = orders * eventsPerOrder
  const stop = new AbortController()
  const signal = AbortSignal.any([options.signal, stop.signal])
  const startedAt = performance.now()
  const timed = (text: string) =>
    `${((performance.now() - startedAt) / 1000).toFixed(1).padStart(5)} s  ${text}`
  const tell = (text: string) => progress.print(timed(text))
  const faults = createFaults(ledger, signal)

  const stage = await setStage({
    print: tell,
    async onHandled(receipt) {
      ledger.received(receipt)
      await faults.handled()
    },
    onLog(line) {
      faults.onLog(line)
      if (told.has(line.event ?? '')) tell(`relay: ${line.msg}`)
    },
    onDeath({ pid, signal: cause, code }) {
      if (!signal.aborted) tell(`process ${pid} died of ${cause ?? `exit ${code}`}`)
    },
  })
  try {
    tell(`8 writers place, pay and ship ${number(orders)} orders: ${number(expected)} events`)
    const shopping = shop({ service: stage.service, ledger, orders, writers: 8, signal })
    const story = play(stage, faults, expected, tell)
    story.catch((error: unknown) => stop.abort(error))
    const everything = Promise.all([shopping, story])
    const show = () => progress.show(timed(describe(ledger)))
    const [{ rolledBack }] = await Promise.all([
      shopping,
      allPublished({ stage, ledger, show, signal, over: everything }),
    ])
    stop.abort(new Error('time is up'))
    const outage = await story.catch(() => undefined)
    progress.end()
    const { code } = await stage.relay.stop()
    tell('the relay was stopped, the accounts are compared')

    const { rows } = await stage.orders.query<{ id: string; body: string }>(
      'SELECT id, payload::text AS body FROM waybill.outbox_events',
    )
    const findings = createFindings(progress.print)
    const { deaths } = stage.relay
    const bodies = rows.map(({ body }) => body)
    checkFaults(findings, { deaths, outage, rolledBack, bodies })
    const comparison = ledger.compare(new Map(rows.map(({ id, body }) => [id, body])))
    await checkDelivery(findings, comparison, stage)
    findings.check(code === 0, `the relay stopped cleanly when asked: exit ${code}`)
    return { summary: comparison.summary, ok: findings.ok }
  } finally {
    stop.abort()
    progress.end()
    await stage.close()
  }
}

/** What goes wrong, and when: by the share of the events that have arrived. */
async function play(
  stage: Stage,
  faults: Faults,
  expected: number,
  tell: (text: string) => void,
): Promise<Outage> {
  await faults.killRelay(stage, expected * 0.15)
  await faults.reached(expected * 0.35)
  tell('the receiver goes away')
  const outage = await faults.closeReceiver(stage, outageMs)
  tell(
    `the receiver is back; ${number(outage.pending)} events wait, ${outage.attempts} attempts were counted`,
  )
  await faults.killRelay(stage, expected * 0.65)
  return outage
}

interface Watch {
  stage: Stage
  ledger: Ledger
  show: () => void
  signal: AbortSignal
  /** Before that, an empty outbox means nothing. */
  over: Promise<unknown>
}

/** Resolves when the outbox holds nothing that waits, or when nothing arrives any more. */
async function allPublished({ stage, ledger, show, signal, over }: Watch): Promise<void> {
  let isOver = false
  over.then(
    () => (isOver = true),
    () => undefined,
  )
  let seen = 0
  let seenAt = performance.now()
  while (performance.now() - seenAt < patienceMs) {
    const wasOver = isOver
    const { rows } = await stage.orders.query<{ waits: boolean }>(
      `SELECT EXISTS (SELECT FROM waybill.outbox_events WHERE processed_at IS NULL AND dead_at IS NULL) AS waits`,
    )
    if (wasOver && rows[0]?.waits === false) return
    const now = ledger.delivered + ledger.duplicates
    if (now !== seen) seenAt = performance.now()
    seen = now
    show()
    await delay(100, undefined, { signal })
  }
}
