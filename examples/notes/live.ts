import { setTimeout as delay } from 'node:timers/promises'
import { type Progress, describe } from '../support/progress.ts'
import { createLedger } from './ledger.ts'
import { type Stage, setStage } from './stage.ts'

export interface LiveOptions {
  progress: Progress
  signal: AbortSignal
}

const told = new Set(['destination.down', 'destination.up', 'event.failed', 'event.dead'])

/** The lab until the signal. */
export async function runLive({ progress, signal }: LiveOptions): Promise<void> {
  const ledger = createLedger()
  let isSet = false
  const stage = await setStage({
    ...{ print: progress.print, signal, onSaved: ledger.committed, onAcknowledged: ledger.acknowledged },
    onLog({ event = '', msg }) {
      if (event === 'relay.started' && isSet) progress.print(`the relay runs as process ${stage.relay.pid}`)
      if (told.has(event)) progress.print(`relay: ${msg}`)
    },
    onDeath({ pid, signal: cause, code }) {
      if (!signal.aborted) progress.print(`process ${pid} died of ${cause ?? `exit ${code}`}`)
    },
  })
  isSet = true
  try {
    await stage.visible(await stage.service.save('n-42', 'Do some harm, and look where this note is.'))
    progress.print(whatToTry(stage))
    while (!signal.aborted) {
      progress.show(describe(ledger))
      await delay(200, undefined, { signal }).catch(() => undefined)
    }
  } finally {
    progress.end()
    progress.print('ending the relay, the public list and PostgreSQL')
    await stage.close()
    progress.print(describe(ledger))
  }
}

function whatToTry({ url, pagesUrl, commandLine, faults }: Stage) {
  const lines = [
    `the lab: write notes, do harm, see what became of them   ${url}`,
    `where is a revision                                      ${pagesUrl}/trace?type=note&id=n-42`,
    `counts by state and symptom, as the relay found them     ${pagesUrl}/publications`,
    '',
    'The commands, in another terminal of this clone; after the first line each works as a trace shows it:',
    `  ${commandLine}`,
    '  waybill trace note n-42',
    '  waybill audit --reads',
    '',
    'Notes and faults without a browser:',
    `  curl -X PUT ${url}/notes/n-42 -d '{"body": "new text"}'`,
    `  curl ${url}/public/notes/n-42`,
    `  curl -X POST ${url}/faults/consumer-rejects      and -X DELETE to mend it`,
    `  curl '${pagesUrl}/api/v1/trace?type=note&id=rejected'`,
    `  faults: ${faults.map(({ name }) => name).join(', ')}`,
    '',
    'Ctrl-C ends it all.',
  ]
  return ['', ...lines, ''].join('\n')
}
