import { runClients } from './clients.ts'
import { runDrain } from './drain.ts'
import type { Answer, Command, Job, Parent } from './job.ts'
import { runOperations } from './operations.ts'
import { runPublish } from './publish.ts'
import { runRelay } from './relay.ts'

// A process for one job, so that no contestant runs in the heap, or behind the garbage, of another. The job comes
// as the first argument; it ends when its parent does.

function createParent(): Parent {
  const commands: Command[] = []
  let waiting: ((command: Command) => void) | undefined
  process.on('message', (command: Command) => {
    if (waiting === undefined) return void commands.push(command)
    waiting(command)
    waiting = undefined
  })
  process.once('disconnect', () => process.exit(1))
  return {
    warm: () => send({ kind: 'warm' }),
    result: (result) => send({ kind: 'result', result }),
    command: () =>
      new Promise((resolve) => {
        const command = commands.shift()
        if (command === undefined) waiting = resolve
        else resolve(command)
      }),
  }
}

function send(answer: Answer): void {
  process.send!(answer)
}

const job = JSON.parse(process.argv[2]!) as Job
const parent = createParent()
try {
  if (job.job === 'drain') await runDrain(job, parent)
  else if (job.job === 'relay') await runRelay(job, parent)
  else if (job.job === 'publish') await runPublish(job, parent)
  else if (job.job === 'operations') parent.result(await runOperations(job))
  else parent.result(await runClients(job))
} catch (error) {
  send({ kind: 'error', error: error instanceof Error ? (error.stack ?? error.message) : String(error) })
}
process.removeAllListeners('disconnect')
process.disconnect()
