import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { projectFolder } from './project.ts'

/** `waybill relay` as people run it: the built command in a process of its own. */
export interface RelayCommand {
  /** Of its HTTP server. */
  readonly url: string
  /** Largest resident set so far, in MB; null where /proc does not tell. */
  peakRssMb(): number | null
  stop(): Promise<void>
}

const startMs = 60_000
const stopMs = 20_000

/** Publishes what is in a database to a webhook. Wants {@link buildCommand} first. */
export async function startRelayCommand(databaseUrl: string, webhookUrl: string): Promise<RelayCommand> {
  const folder = mkdtempSync(join(tmpdir(), 'waybill-bench-'))
  const configuration = {
    destinations: { hook: { type: 'webhook', url: webhookUrl } },
    retention: { processedDays: 36_500 },
  }
  writeFileSync(join(folder, 'waybill.config.json'), JSON.stringify(configuration))
  const child = spawn(process.execPath, [join(projectFolder, 'dist/cli/main.js'), 'relay', '--port', '0'], {
    cwd: folder,
    env: { PATH: process.env['PATH'], WAYBILL_DATABASE_URL: databaseUrl },
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  const ended = new Promise<void>((resolve) => child.once('exit', () => resolve()))

  async function stop(): Promise<void> {
    const kill = setTimeout(() => child.kill('SIGKILL'), stopMs)
    if (child.exitCode === null && child.signalCode === null) {
      child.kill('SIGTERM')
      await ended
    }
    clearTimeout(kill)
    rmSync(folder, { recursive: true, force: true })
  }

  try {
    return { url: await listening(child), peakRssMb: () => peakRssMb(child.pid!), stop }
  } catch (error) {
    await stop()
    throw error
  }
}

/** Makes `dist/` as the sources are now. */
export function buildCommand(): void {
  const { status, stderr } = spawnSync(
    process.execPath,
    [join(projectFolder, 'scripts/build.mjs'), '--if-changed'],
    { encoding: 'utf8' },
  )
  if (status !== 0) throw new Error(`the command cannot be built:\n${stderr}`)
}

/** Where its HTTP server listens, as it logs. */
function listening(child: ChildProcess): Promise<string> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(
      () => reject(new Error(`waybill relay did not listen within ${startMs} ms`)),
      startMs,
    )
    const lines: string[] = []
    createInterface(child.stderr!).on('line', (line) => {
      const url = /"event":"admin\.listening","url":"([^"]+)"/.exec(line)?.[1]
      if (lines.length < 5) lines.push(line)
      if (url === undefined) return
      clearTimeout(timer)
      resolve(url)
    })
    child.once('exit', (code) => {
      clearTimeout(timer)
      reject(new Error(`waybill relay ended with ${code}: ${lines.join(' ').slice(0, 500)}`))
    })
  })
}

function peakRssMb(pid: number): number | null {
  try {
    const kilobytes = /^VmHWM:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]
    return kilobytes === undefined ? null : Number(kilobytes) / 1024
  } catch {
    return null
  }
}
