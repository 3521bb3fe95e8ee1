import { spawn } from 'node:child_process'
import type { BenchDatabase } from './server.ts'

/** pg_recvlogical on the events table of a database, to nowhere. */
export interface Receiver {
  /** What is written up to here is what `run` reads. */
  mark(): Promise<void>
  /** Reads everything up to the mark. Answers the milliseconds that it took, without its start-up. */
  run(): Promise<number>
  drop(): Promise<void>
}

const slot = 'bench_rows'
/** Of a run with nothing to read: what starting and ending cost. */
const idleSlot = 'bench_nothing'
const timeoutMs = 120_000

export async function createReceiver(tool: string, database: BenchDatabase): Promise<Receiver> {
  const { username, password, hostname, port, pathname } = new URL(database.url)
  let until = ''
  let idleFrom = ''
  await database.query('CREATE PUBLICATION bench FOR TABLE waybill.outbox_events')
  await createSlot(slot)

  async function createSlot(name: string): Promise<void> {
    await database.query(`SELECT pg_create_logical_replication_slot($1, 'pgoutput')`, [name])
  }

  async function position(): Promise<string> {
    // Waits for the disk, and with it for everything that did not.
    await database.query(`SELECT pg_logical_emit_message(true, 'bench', '')`)
    const [row] = await database.query<{ lsn: string }>('SELECT pg_current_wal_flush_lsn()::text AS lsn')
    return row!.lsn
  }

  function receive(name: string, end: string): Promise<number> {
    const startedAt = performance.now()
    const child = spawn(
      tool,
      [
        ...['--start', '--slot', name, '--endpos', end, '--no-loop', '--file', '/dev/null'],
        ...['--host', hostname, '--port', port, '--username', username, '--dbname', pathname.slice(1)],
        ...['-o', 'proto_version=1', '-o', 'publication_names=bench'],
      ],
      {
        env: { ...process.env, PGPASSWORD: password },
        stdio: ['ignore', 'ignore', 'pipe'],
        timeout: timeoutMs,
      },
    )
    let said = ''
    child.stderr.on('data', (chunk) => (said += String(chunk)))
    return new Promise((resolve, reject) => {
      child.once('error', reject)
      child.once('close', (code) => {
        const elapsedMs = performance.now() - startedAt
        if (code === 0) resolve(elapsedMs)
        else reject(new Error(`pg_recvlogical ended with ${code}: ${said.slice(0, 500)}`))
      })
    })
  }

  return {
    async mark() {
      until = await position()
      await createSlot(idleSlot)
      idleFrom = await position()
      await database.query('CHECKPOINT')
    },
    async run() {
      const startUpMs = await receive(idleSlot, idleFrom)
      return (await receive(slot, until)) - startUpMs
    },
    async drop() {
      const client = await database.connect()
      await client.query(
        `SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name IN ($1, $2)`,
        [slot, idleSlot],
      )
    },
  }
}
