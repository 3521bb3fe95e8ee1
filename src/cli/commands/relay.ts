import { WaybillError } from '../../errors.ts'
import type { DrainReport } from '../../relay/relay-api.ts'
import type { Action, CommandContext, DatabaseConfiguration } from '../context.ts'
import { exitCodes } from '../exit-code.ts'
import type { RelayProcess } from '../relay-process.ts'
import { interruption } from '../signals.ts'
import { keepHeapSmall } from '../small-heap.ts'
import { plural } from '../text.ts'

export interface RelayFlags {
  once?: boolean
  port?: string
}

/** Runs the relay until a signal comes, or with `--once` until nothing is due. */
export function relayCommand({ once = false, port }: RelayFlags): Action {
  return async (context) => {
    keepHeapSmall()
    const flags = port === undefined ? {} : { 'admin.port': { name: '--port', value: port } }
    const configuration = (await context.load('relay', flags)).configuration as DatabaseConfiguration
    // A daemon waits for its database; somebody who wants it done once wants to know now.
    if (once) await context.withDatabase(async () => undefined)
    const { createRelayProcess } = await import('../relay-process.ts')
    const stop = interruption()
    try {
      const work = await createRelayProcess(configuration, { serve: !once || port !== undefined })
      return once
        ? await drain(work, context, configuration, stop.signal)
        : await serve(work, configuration, stop.signal)
    } finally {
      stop.release()
    }
  }
}

async function serve(
  work: RelayProcess,
  { relay }: DatabaseConfiguration,
  signal: AbortSignal,
): Promise<number> {
  const asked = new Promise<void>((resolve) => {
    if (signal.aborted) resolve()
    else signal.addEventListener('abort', () => resolve(), { once: true })
  })
  // A start can take as long as the database does not answer.
  await Promise.race([work.start(), asked])
  await asked
  return stopped(work, relay.stopGraceMs)
}

/** A stop that overruns its grace time by far is ended all the same. */
async function stopped(work: RelayProcess, graceMs: number): Promise<number> {
  setTimeout(() => process.exit(exitCodes.failed), graceMs + 10_000).unref()
  const { clean } = await work.stop()
  return clean ? exitCodes.done : exitCodes.failed
}

/** How long `--once` waits for a database that went away in the middle, in milliseconds. */
const patienceMs = 15_000

async function drain(
  work: RelayProcess,
  { output }: CommandContext,
  { relay, destinations }: DatabaseConfiguration,
  signal: AbortSignal,
): Promise<number> {
  const away = databaseAway(work)
  try {
    await work.start()
    const interrupted = new Promise<null>((resolve) => signal.addEventListener('abort', () => resolve(null)))
    const report = await Promise.race([work.relay.drain(), interrupted, away.error])
    if (report === null) output.note('stopped early: what is left is published by the next run')
    else tell(report)
    const code = await stopped(work, relay.stopGraceMs)
    return report === null || report.stuck > 0 ? exitCodes.failed : code
  } finally {
    away.release()
  }

  function tell(report: DrainReport): void {
    const { published, failed, dead, stuck } = report
    output.data(report)
    const text = `published ${plural(published, 'event')}, ${plural(failed, 'failure')}, ${plural(dead, 'dead letter')}`
    const rest = stuck > 0 ? `; ${plural(stuck, 'event')} could not go out, their destination is away` : ''
    // A stdout destination has standard output for itself.
    const usesStdout = Object.values(destinations).some((d) => (d as { type?: unknown }).type === 'stdout')
    if (usesStdout) output.note(text + rest)
    else output.print(text + rest)
  }
}

/** Rejects when the database has been away for longer than patience lasts. */
function databaseAway({ relay }: RelayProcess): { error: Promise<never>; release(): void } {
  let timer: NodeJS.Timeout | undefined
  let fail: (error: Error) => void
  const error = new Promise<never>((_, reject) => (fail = reject))
  error.catch(() => undefined)
  const off = [
    relay.telemetry.on('database.down', ({ error: reason }) => {
      timer = setTimeout(
        () =>
          fail(
            new WaybillError(
              'DATABASE_UNREACHABLE',
              `the database went away while events were published: ${reason}`,
            ),
          ),
        patienceMs,
      )
    }),
    relay.telemetry.on('database.up', () => clearTimeout(timer)),
  ]
  return {
    error,
    release() {
      clearTimeout(timer)
      for (const stop of off) stop()
    },
  }
}
