import { setTimeout as delay } from 'node:timers/promises'
import { createLedger } from './ledger.ts'
import { type Progress, describe } from '../support/progress.ts'
import { shop } from './shoppers.ts'
import { setStage } from './stage.ts'

export interface LiveOptions {
  progress: Progress
  signal: AbortSignal
  /** Calls back with each key; undefined when there is no keyboard. */
  onKey?: ((listener: (key: string) => void) => void) | undefined
}

const told = new Set(['destination.down', 'destination.up', 'event.failed', 'event.dead'])

/** Orders keep coming until the signal. */
export async function runLive({ progress, signal, onKey }: LiveOptions): Promise<void> {
  const ledger = createLedger()
  let isSet = false
  let adminUrl = ''
  const stage = await setStage({
    print: progress.print,
    onHandled: ledger.received,
    onLog({ event = '', msg, url }) {
      if (event === 'admin.listening') adminUrl = String(url)
      if (event === 'relay.started' && isSet) progress.print(`the relay runs as process ${stage.relay.pid}`)
      if (told.has(event)) progress.print(`relay: ${msg}`)
    },
    onDeath({ pid, signal: cause, code }) {
      if (signal.aborted) return
      progress.print(`process ${pid} died of ${cause ?? `exit ${code}`}, another relay is started`)
    },
  })
  isSet = true
  const { service, relay, receiver, orders, databaseUrl } = stage
  try {
    progress.print(whatToTry({ databaseUrl, adminUrl, pid: relay.pid, keys: onKey !== undefined }))
    onKey?.((key) => {
      if (key === 'k') void relay.kill()
      if (key === 'r') void toggle()
      if (key === 'p') void writePoison()
    })
    const shopping = shop({ service, ledger, orders: Infinity, writers: 4, pauseMs: 400, signal })
    const showing = show()
    await Promise.all([shopping, showing])
  } finally {
    progress.end()
    progress.print('ending the relay, the receiver and PostgreSQL')
    await stage.close()
    progress.print(describe(ledger))
  }

  async function show(): Promise<void> {
    while (!signal.aborted) {
      progress.show(`${describe(ledger)} · receiver ${receiver.isOpen ? 'up' : 'away'}`)
      await delay(200, undefined, { signal }).catch(() => undefined)
    }
  }

  async function toggle(): Promise<void> {
    progress.print(
      receiver.isOpen ? 'the receiver goes away: press r to bring it back' : 'the receiver is back',
    )
    await (receiver.isOpen ? receiver.close() : receiver.open())
  }

  /** It is paid for an order that was never placed: the receiver fails, again and again. Others are not held up. */
  async function writePoison(): Promise<void> {
    await orders.query(
      `INSERT INTO waybill.outbox_events (aggregate_type, aggregate_id, event_type, payload)
       VALUES ('order', 'never-placed', 'order.paid', '{"order_id": "never-placed"}')`,
    )
    progress.print('an event was written that the receiver cannot handle: see status, then dead list')
  }
}

interface Hints {
  databaseUrl: string
  adminUrl: string
  pid: number
  keys: boolean
}

function whatToTry({ databaseUrl, adminUrl, pid, keys }: Hints): string {
  const commands = [
    `export WAYBILL_DATABASE_URL=${databaseUrl}`,
    'npx tsx src/cli/main.ts status              what waits, who works, what is away',
    'npx tsx src/cli/main.ts list --limit 10     the events, and what became of them',
    'npx tsx src/cli/main.ts dead list           what was given up',
    `curl ${adminUrl}/metrics`,
    `kill -9 ${pid}${' '.repeat(Math.max(1, 36 - String(pid).length))}kills the relay; another one takes over`,
  ]
  const keyboard = [
    'k  kills the relay        r  takes the receiver away, and brings it back',
    'p  writes an event that the receiver cannot handle',
  ]
  return [
    '',
    'Orders are coming in. Things to try, in another terminal:',
    ...commands.map((line) => `  ${line}`),
    ...(keys ? ['and here:', ...keyboard.map((line) => `  ${line}`)] : []),
    'Ctrl-C ends it all.',
    '',
  ].join('\n')
}
