import { runLive } from './live.ts'
import { runOnce } from './once.ts'
import { createProgress } from './progress.ts'

const usage = `npm run demo              orders keep coming until Ctrl-C, with things to try
npm run demo -- --once    1 000 orders while parts are killed and closed, then a comparison; exit 0 if all is well`

const [option, ...more] = process.argv.slice(2)
if (more.length > 0 || ![undefined, '--once', '--help'].includes(option)) {
  console.error(`unknown option ${more[0] ?? option}\n\n${usage}`)
  process.exit(2)
}
if (option === '--help') {
  console.log(usage)
  process.exit(0)
}

const stop = new AbortController()
let stoppedAt = 0
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, interrupt)

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

const progress = createProgress()
let exitCode: number = 0
try {
  if (option === '--once') {
    exitCode = await runOnce({ progress, signal: stop.signal })
  } else {
    const onKey = process.stdin.isTTY ? listenToKeys : undefined
    await runLive({ progress, signal: stop.signal, onKey })
  }
} catch (error) {
  // A terminal sends its Ctrl-C to every process: what fails after that is no news.
  if (!stop.signal.aborted) console.error(error)
  exitCode = stop.signal.aborted ? 130 : 1
}
if (process.stdin.isTTY) process.stdin.setRawMode(false)
process.stdout.write('', () => process.exit(exitCode))
