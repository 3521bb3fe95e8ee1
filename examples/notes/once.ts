import { setMaxListeners } from 'node:events'
import { setTimeout as delay } from 'node:timers/promises'
import { type Findings, createFindings } from '../support/findings.ts'
import { type Progress, describe, number } from '../support/progress.ts'
import { type Fault, type Key, saysOf, traceKey } from './faults.ts'
import { createLedger } from './ledger.ts'
import { type Stage, setStage } from './stage.ts'

export interface OnceOptions {
  progress: Progress
  signal: AbortSignal
  /** What is not seen by then will not be, in milliseconds. Default: 20 000. */
  patienceMs?: number
  /** Called before anything is written. */
  prepare?: (stage: Stage) => void
}

/** What trace and audit should say of a fault, and what they said. */
export interface FaultReport {
  name: string
  expected: string
  found: string
}

const notes = 40
const revisionsOfEach = 15
const writePauseMs = 400
const visible = 'projection-current, visible'

/** False when it does not come true in time. */
type Wait = (condition: () => Promise<boolean>) => Promise<boolean>

/** Every fault in turn while notes are written, then the comparison, whose figures are the last line. */
export async function runOnce(options: OnceOptions): Promise<0 | 1> {
  const { progress, signal, patienceMs = 20_000 } = options
  const wait: Wait = (condition) => until(condition, patienceMs, signal)
  const ledger = createLedger()
  const startedAt = performance.now()
  const timed = (text: string) =>
    `${((performance.now() - startedAt) / 1000).toFixed(1).padStart(5)} s  ${text}`
  const tell = (text: string) => progress.print(timed(text))
  const stage = await setStage({
    print: tell,
    signal,
    onSaved: ledger.committed,
    onAcknowledged: ledger.acknowledged,
    onDeath({ pid, signal: cause, code }) {
      if (!signal.aborted) tell(`process ${pid} died of ${cause ?? `exit ${code}`}`)
    },
  })
  options.prepare?.(stage)
  const showing = setInterval(() => progress.show(timed(describe(ledger))), 200)
  try {
    tell(`${notes} notes get ${number(revisionsOfEach)} revisions each, while this is done:`)
    const writing = write(stage, signal)
    // It is heard of below, also when it fails while a fault is played.
    writing.catch(() => undefined)
    const reports: FaultReport[] = []
    for (const fault of stage.faults) {
      const report = await play(fault, stage, wait)
      const { name, expected } = report
      tell(`${name}: ${report.found}${report.found === expected ? '' : `, expected ${expected}`}`)
      reports.push(report)
    }
    await writing
    await wait(async () => ledger.delivered >= ledger.written)
    const { code } = await stage.relay.stop()
    progress.end()
    tell('the relay was stopped, the accounts are compared')
    const findings = createFindings(progress.print)
    for (const { name, expected, found: said } of reports) {
      findings.check(said === expected, `${name}: trace and audit say ${said}`)
    }
    const { summary, problems } = await ledger.compare(stage.publicPool)
    findings.check(
      problems.length === 0,
      problems.length === 0 ? 'every note is shown in its newest revision' : problems.join('; '),
    )
    await checkFaults(findings, stage, summary)
    findings.check(code === 0, `the relay stopped cleanly when asked: exit ${code}`)
    progress.print(JSON.stringify({ ...summary, faults: reports }))
    return findings.ok ? 0 : 1
  } finally {
    clearInterval(showing)
    progress.end()
    await stage.close()
  }
}

async function write({ service }: Stage, signal: AbortSignal): Promise<void> {
  // Each writer listens, and whoever waits for something else.
  setMaxListeners(notes + 20, signal)
  const writer = async (note: number) => {
    for (let revision = 1; revision <= revisionsOfEach; revision++) {
      await service.save(`note-${note}`, `text ${revision} of note ${note}`)
      await delay(writePauseMs, undefined, { signal })
    }
  }
  await Promise.all(Array.from({ length: notes }, (_, n) => writer(n + 1)))
}

/** Injects one fault, asks trace and audit, mends it, and waits until readers see that note. */
async function play(fault: Fault, stage: Stage, wait: Wait): Promise<FaultReport> {
  const { name, expected, symptom } = fault
  const { diagnosis } = stage
  const key = await fault.inject()
  const says = async () => saysOf(await traceKey(diagnosis, key))
  let said = ''
  await wait(async () => (said = await says()) === expected)
  const named = async () => (await auditSays(stage, key)) === symptom
  if (!(await wait(named))) said += `; audit says ${await auditSays(stage, key)}`
  if (symptom === 'intent-missing' && !(await isReplayRefused(stage, key))) said += '; replay was not refused'
  await fault.mend?.(key)
  if (!(await wait(async () => (await says()) === visible))) said += '; never mended'
  return { name, expected, found: said }
}

/** The symptom under which audit lists this revision; null: under none. */
async function auditSays({ diagnosis }: Stage, { id }: Key): Promise<string | null> {
  const { symptoms } = await diagnosis.audit('note', { withReads: true, keysTold: 1_000 })
  const named = Object.entries(symptoms).find(([, { first }]) => first.some((key) => key.id === id))
  return named?.[0] ?? null
}

async function isReplayRefused({ diagnosis }: Stage, key: Key): Promise<boolean> {
  return diagnosis.replay({ type: 'note', ...key }, { reason: 'to see it refused' }).then(
    () => false,
    (error: { code?: unknown }) => error.code === 'ACTION_REFUSED',
  )
}

/** Without faults the figures would say nothing. */
async function checkFaults(
  { check }: Findings,
  { relay, list, diagnosis }: Stage,
  { duplicates }: { duplicates: number },
): Promise<void> {
  const killed = relay.deaths.filter(({ signal }) => signal === 'SIGKILL').length
  check(killed === 2, `the relay was killed twice: ${killed}`)
  check(duplicates >= 2, `what came again was absorbed: ${number(duplicates)} duplicates`)
  const again = list.indexed.length - new Set(list.indexed).size
  check(again === 0, `effects outside of the database that were repeated: ${again}`)
  const decided = (await diagnosis.decisions()).map(({ action, what }) => `${action} ${what}`)
  check(decided.length === 2, `decisions are on record: ${decided.join(', ')}`)
}

async function until(
  condition: () => Promise<boolean>,
  patienceMs: number,
  signal: AbortSignal,
): Promise<boolean> {
  const limit = performance.now() + patienceMs
  while (performance.now() < limit) {
    if (await condition()) return true
    await delay(50, undefined, { signal })
  }
  return condition()
}
