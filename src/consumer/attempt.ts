import { sqlState } from '../database/failures.ts'
import { WaybillError } from '../errors.ts'
import { validatePayload } from '../outbox/catalogue.ts'
import type { EventCatalogue } from '../outbox/event.ts'
import { causes } from '../outbox/failures.ts'
import type { ReceivedEvent } from '../publishing/received-event.ts'
import { withConsumeSpan } from '../telemetry/traces.ts'
import { createEffects, noEffects } from './effects.ts'
import { CrashSuspected, type FailedTry, type TryPhase, failedTry } from './failure.ts'
import type { Handler, HandlerContext } from './handlers.ts'
import type { Job } from './job.ts'
import type { Keeper } from './keeper.ts'
import { type EventOutcomes, forgetOutcomes, outcomesOf } from './outcomes.ts'
import { createRebuilder } from './rebuild.ts'
import type { InboxStatements } from './statements.ts'
import type { Store } from './store.ts'

export type TryOutcome =
  | {
      readonly status: 'applied' | 'stale'
      readonly attempt: number
      readonly filled: EventOutcomes['filled']
    }
  /** Another transaction has handled it before, with this result. */
  | { readonly status: 'duplicate'; readonly result: string }
  | { readonly status: 'failed'; readonly failure: FailedTry; readonly error: unknown }

/** Deaths that may have been anybody's; from then on the event is tried with nobody beside it. */
const deathsInCompany = 2
/** So that nothing becomes a dead letter by what was beside it, nor by one death of another cause. */
const leastDeaths = deathsInCompany + 2

interface Claim {
  readonly attempt: number
  readonly xid: string
}

export interface AttemptOptions<Tx> {
  store: Store<Tx>
  statements: InboxStatements
  consumer: string
  schema: string
  catalogue: EventCatalogue | undefined
  handlerTimeoutMs: number
  maxAttempts: number
  keeper: Keeper
  /** Aborts when a stop has waited long enough. */
  giveUp: AbortSignal
}

/** Runs a handler once: its writes, the inbox row and the result commit together, or nothing does. */
export function createAttempt<Tx>(options: AttemptOptions<Tx>) {
  const { store, statements, consumer, catalogue, handlerTimeoutMs, maxAttempts, keeper, giveUp } = options
  const effectsFor = createEffects(options)
  const rebuild = createRebuilder(options)
  const run = (tx: Tx, name: keyof InboxStatements, ...params: string[]) =>
    store.run(tx, statements[name], params)

  /** The try's number and the transaction's id, or the result that is there. */
  async function claim(tx: Tx, { event, kept, receivedAt }: Job): Promise<Claim | string> {
    if (kept) {
      const [row] = await run(tx, 'claimKept', consumer, event.id)
      return row === undefined ? 'handled' : { attempt: Number(row['attempts']), xid: row['xid'] as string }
    }
    const [row] = await run(
      tx,
      'claim',
      ...[consumer, event.id, event.aggregateType, event.aggregateId, event.revision?.toString() ?? ''],
      ...[String(event.replay ?? 0), String(performance.now() - receivedAt)],
    )
    const xid = row?.['xid'] as string
    if (row?.['attempts'] != null) return { attempt: Number(row['attempts']), xid }
    if (event.replay !== null) {
      const [again] = await run(tx, 'claimReplay', consumer, event.id, String(event.replay))
      if (again !== undefined) return { attempt: Number(again['attempts']), xid }
    }
    const [before] = await run(tx, 'recorded', consumer, event.id)
    return (before?.['result'] as string | undefined) ?? 'handled'
  }

  /**
   * A try that may end the process is on record before it is made. Only who has the claim does so: another process that
   * got the same message at the same time is no death.
   */
  async function noteTry(job: Job): Promise<void> {
    const { attempts, crashes } = await keeper.noteTry(job.event.id)
    job.noted = true
    job.attempts = Math.max(job.attempts, attempts)
    const deaths = crashes - 1
    if (deaths + attempts >= Math.max(maxAttempts, leastDeaths)) throw new CrashSuspected('crashed', deaths)
    if (deaths >= deathsInCompany && !job.alone) throw new CrashSuspected('alone', deaths)
  }

  async function finish(
    tx: Tx,
    { event }: Job,
    xid: string,
    rebuilt: 'applied' | 'stale' | undefined,
  ): Promise<'applied' | 'stale'> {
    const outcomes = outcomesOf(event)
    if (outcomes.hasFailed) throw outcomes.failed
    const [now] = await run(tx, 'stillInside')
    if (now?.['xid'] !== xid) throw ended()
    if (rebuilt !== undefined) {
      await run(tx, 'endRebuild', consumer, event.id)
      return rebuilt
    }
    const stale = outcomes.applied === 0 && outcomes.stale.length > 0
    if (stale) await run(tx, 'markStale', consumer, event.id, outcomes.stale.join('; '))
    return stale ? 'stale' : 'applied'
  }

  type Call = Pick<HandlerContext<Tx>, 'tx' | 'attempt' | 'signal'>

  async function handle(received: ReceivedEvent, job: Job, handler: Handler<Tx>, call: Call): Promise<void> {
    const payload: unknown = await validatePayload(catalogue, received.type, received.payload, 'event.')
    // The same object where nothing changed: what projections note is kept by it.
    const event = payload === received.payload ? received : withPayload(received, payload)
    const { projection = null } = job.rebuild ?? {}
    const effects = projection === null ? effectsFor(call.tx, event.id) : noEffects
    await withConsumeSpan(event, consumer, async () =>
      handler({ ...call, event, effects, rebuild: projection }),
    )
    if (event !== job.event) Object.assign(outcomesOf(job.event), outcomesOf(event))
  }

  return async (job: Job, handler: Handler<Tx>): Promise<TryOutcome> => {
    const abort = new AbortController()
    const stop = () => abort.abort(giveUp.reason)
    if (giveUp.aborted) stop()
    else giveUp.addEventListener('abort', stop, { once: true })
    let phase = 'claim' as TryPhase
    let timer: NodeJS.Timeout | undefined
    let late = false
    const giveUpHandler = () => {
      late = true
      abort.abort(handlerTimeout(handlerTimeoutMs))
    }
    forgetOutcomes(job.event)
    try {
      return await store.transaction<TryOutcome>(
        async (tx) => {
          const claimed = await claim(tx, job)
          if (typeof claimed === 'string') return { status: 'duplicate', result: claimed }
          if (job.delivery.redelivered && !job.noted) await noteTry(job)
          phase = 'handler'
          const call = { tx, attempt: claimed.attempt, signal: abort.signal }
          const once = async (event: ReceivedEvent) => {
            timer = setTimeout(giveUpHandler, handlerTimeoutMs)
            await handle(event, job, handler, call)
            clearTimeout(timer)
          }
          let rebuilt: 'applied' | 'stale' | undefined
          if (job.rebuild === undefined) await once(job.event)
          else rebuilt = await rebuild(tx, job.rebuild, once)
          phase = 'commit'
          const status = await finish(tx, job, claimed.xid, rebuilt)
          return { status, attempt: claimed.attempt, filled: outcomesOf(job.event).filled }
        },
        { signal: abort.signal, idleLimitMs: handlerTimeoutMs + 60_000 },
      )
    } catch (error) {
      if (late) return { status: 'failed', failure: 'failed', error: handlerTimeout(handlerTimeoutMs) }
      const told = phase === 'commit' && isAbortedTransaction(error) ? swallowed(error) : error
      return { status: 'failed', failure: failedTry(told, phase), error: told }
    } finally {
      clearTimeout(timer)
      giveUp.removeEventListener('abort', stop)
    }
  }
}

function withPayload(event: ReceivedEvent, payload: unknown): ReceivedEvent {
  return { ...event, payload }
}

function isAbortedTransaction(error: unknown): boolean {
  return causes(error).some((cause) => sqlState(cause) === '25P02')
}

function handlerTimeout(ms: number): WaybillError {
  return new WaybillError(
    'HANDLER_TIMEOUT',
    `the handler did not end within ${ms} ms: its transaction was rolled back; raise handlerTimeoutMs or let it do less`,
  )
}

function swallowed(cause: unknown): WaybillError {
  return new WaybillError(
    'TRANSACTION_FAILED',
    'a statement of the handler failed and the handler went on: let its error out, or use a savepoint',
    { cause },
  )
}

function ended(): WaybillError {
  return new WaybillError(
    'TRANSACTION_FAILED',
    'the transaction that the consumer began is not there any more: a handler must neither commit nor roll back, and database.transaction must really begin one',
  )
}
