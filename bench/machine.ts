import { availableParallelism, cpus, loadavg, release, totalmem, type as systemType } from 'node:os'
import { existsSync, readFileSync } from 'node:fs'

/** What the figures were measured on. */
export interface Machine {
  cpu: string
  cores: number
  memoryGb: number
  system: string
  node: string
  /** Load average of the minute before the run: 0 means nobody else was there. */
  loadBefore: number
}

export function describeMachine(): Machine {
  return {
    cpu: cpuModel(),
    cores: availableParallelism(),
    memoryGb: Math.round(totalmem() / 2 ** 30),
    system: `${systemType()} ${release()}`,
    node: process.versions.node,
    loadBefore: Number(loadavg()[0]!.toFixed(2)),
  }
}

function cpuModel(): string {
  const model = cpus()[0]?.model.trim() ?? ''
  if (model !== '' && model !== 'unknown') return model
  const info = existsSync('/proc/cpuinfo') ? readFileSync('/proc/cpuinfo', 'utf8') : ''
  return /^(?:model name|CPU part)\s*:\s*(.+)$/m.exec(info)?.[1] ?? process.arch
}
