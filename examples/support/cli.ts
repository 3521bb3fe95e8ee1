import { type Progress, createProgress } from './progress.ts'

export interface Demo {
  /** What `--help` says. */
  usage: string
  /** Runs to the end and answers the exit code. */
  once(context: { progress: Progress; signal: AbortSignal }): Promise<number>
  /** Runs until the signal. */
  live(context: {
    progress: Progress
    signal: AbortSignal
    /** Calls back with each key; undefined when there is no keyboard. */
    onKey: ((listener: (key: string) => void) => void) | undefined
  }): Promise<void>
}

const stop = new AbortController()
let stoppedAt = 0

/** The command line of a demonstration. Never returns. */
export async function runDemo({ usage, once, live }: Demo): Promise<void> {
  const [option, ...more] = process.argv.slice(2)
  if (more.length > 0 || ![undefined, '--once', '--help'].includes(option)) {
    console.error(`unknown option ${more[0] ?? option}\n\n${usage}`)
    process.exit(2)
  }
  if (option === '--help') {
    console.log(usage)
    process.exit(0)
  }
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, interrupt)
  const progress = createProgress()
  const { signal } = stop
  let exitCode = 0
  try {
    if (option === '--once') exitCode = await once({ progress, signal })
    else await live({ progress, signal, onKey: process.stdin.isTTY ? listenToKeys : undefined })
  } catch (error) {
    // A terminal sends its Ctrl-C to every process: what fails after that is no news.
    if (signal.aborted) progress.print('stopped before the end: nothing is left running')
    else console.error(error)
    exitCode = signal.aborted ? 130 : 1
  }
  if (process.stdin.isTTY) process.stdin.setRawMode(false)
  process.stdout.write('', () => process.exit(exitCode))
}

/** npm, tsx and the terminal may each pass the same Ctrl-C on; only a later one means that it takes too long. */
function interrupt(): void {
  if (stop.signal.aborted && performance.now() - stoppedAt > 1000) process.exit(130)
  if (!stop.signal.aborted) stoppedAt = performance.now()
  stop.abort()
}

function listenToKeys(listener: (key: string) => void): void {
  process.stdin.setRawMode(true)
  process.stdin.setEncoding('utf8').on('data', (key: string) => {
    if (key === '\u0003' || key === 'q') interrupt()
    else listener(key)
  })
}
