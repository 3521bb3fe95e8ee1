import { spawn } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { ClientsResult } from './child/job.ts'
import type { Children } from './children.ts'
import type { BenchDatabase } from './server.ts'
import { eventPayload, insertEvent, insertOrder } from './transaction.ts'

/** Runs producers' transactions, an order and an event each, and answers how many a second. */
export interface Producers {
  /** What runs them, for the report. */
  readonly title: string
  run(database: BenchDatabase, clients: number, seconds: number): Promise<number>
  close(): void
}

const spareMs = 60_000

export function createProducers(pgbench: string | undefined, children: Children): Producers {
  return pgbench === undefined ? createOwn(children) : createPgbench(pgbench)
}

function createOwn(children: Children): Producers {
  return {
    title: 'clients in one Node.js process, since pgbench is not installed',
    async run({ url }, clients, seconds) {
      const child = children.start(
        { job: 'clients', url, clients, seconds },
        { timeoutMs: seconds * 1000 + spareMs },
      )
      try {
        return (await child.result<ClientsResult>()).transactionsPerSecond
      } finally {
        await child.stop()
      }
    },
    close() {},
  }
}

function createPgbench(tool: string): Producers {
  const folder = mkdtempSync(join(tmpdir(), 'waybill-bench-'))
  const script = join(folder, 'transaction.sql')
  const statements = [
    '\\set id random(1, 100000)',
    'BEGIN',
    insertOrder(`'o-' || :id`),
    insertEvent(`'o-' || :id`, `'${eventPayload}'`),
    'COMMIT',
  ]
  // A command of pgbench ends with its line, a statement with its semicolon.
  writeFileSync(script, statements.map((line) => (line.startsWith('\\') ? line : `${line};`)).join('\n'))
  return {
    title: 'pgbench with prepared statements',
    async run({ url }, clients, seconds) {
      const { username, password, hostname, port, pathname } = new URL(url)
      const output = await runProgram(
        tool,
        [
          ...['--no-vacuum', '--protocol', 'prepared', '--file', script],
          // It takes whole seconds only.
          ...['--client', `${clients}`, '--jobs', '1', '--time', `${Math.ceil(seconds)}`],
          ...['--host', hostname, '--port', port, '--username', username, pathname.slice(1)],
        ],
        { PGPASSWORD: password },
        seconds * 1000 + spareMs,
      )
      // On a machine that is busy elsewhere the time may be over before every client is connected.
      if (/^number of transactions actually processed: 0\b/m.test(output)) return 0
      const rate = /^tps = ([\d.]+)/m.exec(output)?.[1]
      if (rate === undefined) throw new Error(`pgbench did not say how fast it was: ${output.slice(-500)}`)
      return Number(rate)
    },
    close: () => rmSync(folder, { recursive: true, force: true }),
  }
}

function runProgram(
  tool: string,
  parameters: string[],
  environment: Record<string, string>,
  timeout: number,
): Promise<string> {
  const child = spawn(tool, parameters, { env: { ...process.env, ...environment }, timeout })
  let output = ''
  child.stdout.on('data', (chunk) => (output += String(chunk)))
  child.stderr.on('data', (chunk) => (output += String(chunk)))
  return new Promise((resolve, reject) => {
    child.once('error', reject)
    child.once('close', (code) => {
      if (code === 0) resolve(output)
      else reject(new Error(`${tool} ended with ${code}: ${output.slice(0, 500)}`))
    })
  })
}
