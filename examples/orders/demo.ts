import { runDemo } from '../support/cli.ts'
import { runLive } from './live.ts'
import { runOnce } from './once.ts'

await runDemo({
  usage: `npm run example:orders              orders keep coming until Ctrl-C, with things to try
npm run example:orders -- --once    1 000 orders while parts are killed and closed, then a comparison; exit 0 if all is well`,
  once: runOnce,
  live: runLive,
})
