import { runDemo } from '../support/cli.ts'
import { runLive } from './live.ts'
import { runOnce } from './once.ts'

await runDemo({
  usage: `npm run demo              the lab: write notes, do harm by button, ask where a note is; until Ctrl-C
npm run demo -- --once    every fault in turn, and whether trace and audit name it; exit 0 if all is well`,
  once: runOnce,
  live: runLive,
})
